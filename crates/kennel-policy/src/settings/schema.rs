//! The settings as JSON Schema (draft 2020-12), printed from the table of keys.

use serde_json::{Map, Value, json};

use super::keys::{self, Field, FieldKind, Key, Kind, SECTIONS, Shape, Zero};
use super::text::UNLIMITED;
use crate::profiles;
use crate::quantity::CPUS;
use crate::registries;

/// The JSON Schema of a settings file; it is the same for TOML.
#[must_use]
pub fn schema() -> Value {
    let mut properties = Map::new();
    properties
        .insert("$schema".to_owned(), json!({ "type": "string", "description": "Where this schema is." }));
    for section in SECTIONS {
        let (named, keys): (Vec<&Key>, Vec<&Key>) =
            section.keys.iter().partition(|key| key.kind.has_own_names());
        let keys = keys.into_iter().map(|key| (key.name.to_owned(), of_key(key)));
        if section.name.is_empty() {
            properties.extend(keys);
        } else {
            let table = json!({
                "type": "object",
                "description": section.doc,
                "properties": keys.collect::<Map<_, _>>(),
                "additionalProperties": named.first().map_or(json!(false), |key| of_key(key)),
            });
            properties.insert(section.name.to_owned(), table);
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kennel settings",
        "description": "What a sandbox may do. kennel reads these settings from TOML and JSON.",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "$defs": {
            "path": entry(&keys::PATH),
            "host": entry(&keys::HOST),
            "mount": entry(&keys::MOUNT),
            "tmpfs": entry(&keys::TMPFS),
            "variable": entry(&keys::VARIABLE),
            "secret": entry(&keys::SECRET),
            "command": entry(&keys::COMMAND),
            "provider": entry(&keys::PROVIDER),
            "budget": entry(&keys::BUDGET),
            "price": entry(&keys::PRICE),
            "traffic": entry(&keys::TRAFFIC),
            "size": size(0),
            "positive_size": size(1),
            "duration": {
                "description": "Seconds, or a number with a unit: 500ms, 30s, 1m30s, 2h.",
                "anyOf": [
                    { "type": "number", "exclusiveMinimum": 0 },
                    { "type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$|^[0-9]+(\.[0-9]+)?$" },
                ],
            },
        },
    })
}

fn of_key(key: &Key) -> Value {
    let reference = |name: &str| json!({ "$ref": format!("#/$defs/{name}") });
    let list_of = |items: Value| json!({ "type": "array", "items": items });
    let limit = |value: Value| json!({ "anyOf": [value, { "const": UNLIMITED }] });
    let mut schema = match &key.kind {
        Kind::Bool(_) | Kind::Switch(_) => json!({ "type": "boolean" }),
        // Of the user's own names a schema knows nothing.
        Kind::Profiles(_) => {
            let name = json!({
                "type": "string",
                "pattern": "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$",
                "examples": profiles::NAMES,
            });
            json!({ "anyOf": [name, list_of(name.clone())] })
        }
        Kind::Lists(_) => {
            let name = json!({ "enum": keys::lists() });
            json!({ "anyOf": [name, list_of(name.clone())] })
        }
        Kind::Hostname(_) => json!({ "type": "string", "pattern": "^[A-Za-z0-9.-]{1,64}$" }),
        Kind::Folder(_) => json!({ "type": "string", "minLength": 1 }),
        Kind::Choice(choices) => json!({ "enum": choices.words() }),
        Kind::Size(_, Zero::Allowed) => limit(reference("size")),
        Kind::Size(_, Zero::Refused) => limit(reference("positive_size")),
        Kind::Time(_) => limit(reference("duration")),
        Kind::Cpus(_) => {
            limit(json!({ "type": "number", "minimum": CPUS.start(), "maximum": *CPUS.end() as u32 }))
        }
        Kind::Count(_) => limit(json!({ "type": "integer", "minimum": 1, "maximum": 1 << 22 })),
        Kind::Paths(..) => list_of(reference("path")),
        Kind::Hosts(..) | Kind::HostsAndRequests(..) => list_of(reference("host")),
        Kind::Gpus(_) => list_of(json!({ "anyOf": [
            { "type": "string", "pattern": "^(all|[0-9]+|(nvidia|amd|intel)(:[0-9]+)?)$" },
            { "type": "integer", "minimum": 0 },
        ] })),
        Kind::Registries(_) => list_of(json!({ "enum": registries::words().collect::<Vec<_>>() })),
        Kind::File(_) => json!({ "type": "string", "minLength": 1 }),
        Kind::Providers(_) => reference("provider"),
        Kind::Budget(_) => reference("budget"),
        Kind::Traffic(_) => reference("traffic"),
        Kind::Prices(_) => json!({ "type": "object", "additionalProperties": reference("price") }),
        Kind::Files(_) => list_of(json!({ "type": "string", "minLength": 1 })),
        Kind::Secrets(_) => json!({ "type": "object", "additionalProperties": reference("secret") }),
        Kind::Mounts(_) => list_of(reference("mount")),
        Kind::Tmpfs(_) => list_of(reference("tmpfs")),
        Kind::Names(_) => list_of(json!({ "type": "string", "pattern": "^[^=]+$" })),
        Kind::Variables(_) => json!({
            "type": "object",
            "additionalProperties": { "anyOf": [{ "type": "string" }, reference("variable")] },
        }),
        Kind::Text(_) | Kind::Proxy(_) => json!({ "type": "string" }),
        Kind::Port(_) => port(),
        Kind::Users(_) => list_of(json!({
            "type": "string",
            "pattern": "^[A-Za-z_][A-Za-z0-9_.-]{0,31}(:[0-9]{1,10}){0,2}$",
        })),
        Kind::Ports(_) => list_of(json!({
            "anyOf": [port(), { "type": "string", "pattern": "^[0-9]{1,5}(:[0-9]{1,5})?$" }],
        })),
    };
    schema["description"] = key.doc.into();
    if let (Kind::Bool(_) | Kind::Switch(_), Ok(default)) = (&key.kind, key.default.parse::<bool>()) {
        schema["default"] = default.into();
    }
    if let Kind::Choice(choices) = &key.kind
        && choices.words().contains(&key.default)
    {
        schema["default"] = key.default.into();
    }
    schema
}

fn port() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": 65535 })
}

fn entry(shape: &Shape) -> Value {
    let properties: Map<_, _> =
        shape.fields.iter().map(|field| (field.name.to_owned(), of_field(field))).collect();
    let required: Vec<_> =
        shape.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let table = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    match shape.short {
        Some(_) => json!({ "anyOf": [{ "type": "string", "minLength": 1 }, table] }),
        None => table,
    }
}

fn of_field(field: &Field) -> Value {
    let mut schema = match field.kind {
        FieldKind::Text => json!({ "type": "string" }),
        FieldKind::Bool => json!({ "type": "boolean" }),
        FieldKind::Size => json!({ "$ref": "#/$defs/positive_size" }),
        FieldKind::Words(words) => json!({ "enum": words }),
        FieldKind::Traffic => {
            let limit = json!({ "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "string", "minLength": 1 }] });
            json!({ "anyOf": [limit, { "type": "array", "items": limit }] })
        }
        FieldKind::Count => json!({ "type": "integer", "minimum": 0 }),
        FieldKind::Amount => json!({ "type": "number", "minimum": 0 }),
        FieldKind::Table(shape) => entry(shape),
        FieldKind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        FieldKind::Source => json!({
            "anyOf": [
                { "type": "string", "pattern": "^(env|file|fd|command|keyring):.|^none$" },
                { "$ref": "#/$defs/command" },
            ],
        }),
    };
    schema["description"] = field.doc.into();
    schema
}

fn size(minimum: u8) -> Value {
    json!({
        "description": "Bytes, or a number with K, M, G or T (powers of 1024): 512M, 1.5G.",
        "anyOf": [
            { "type": "integer", "minimum": minimum },
            { "type": "string", "pattern": r"^[0-9]+[bB]?$|^[0-9]+(\.[0-9]+)?[KMGTkmgt]([iI]?[bB])?$" },
        ],
    })
}
