//! Tables as data: TOML of which each entry is one line. They are read at each start, so by their lines and without a parser; the
//! tests of each table compare with one.

/// The fields of an entry.
pub(crate) struct Fields(&'static str);

impl Fields {
    /// A field; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &'static str {
        let mut fields = self.0.split("\", ").filter_map(|field| field.split_once(" = \""));
        fields.find(|(key, _)| *key == name).map_or("", |(_, value)| value.trim_end_matches('"'))
    }
}

/// The fields of an entry's line; `None` for another line.
pub(crate) fn fields(line: &'static str) -> Option<Fields> {
    line.trim().strip_prefix("{ ").and_then(|line| line.strip_suffix(" },")).map(Fields)
}
