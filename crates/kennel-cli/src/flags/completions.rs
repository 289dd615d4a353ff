//! Completions for three shells.
//!
//! Each script knows the commands, their flags and what can follow a flag. After the command to run, completion is
//! left to that command.

use std::fmt::Write;

use super::Shell;
use super::table::{COMMANDS, Command, Flag, Offer, Scope};

/// The script for a shell.
pub fn script(shell: Shell) -> String {
    match shell {
        Shell::Bash => bash(),
        Shell::Zsh => zsh(),
        Shell::Fish => fish(),
    }
}

fn names() -> String {
    COMMANDS.iter().map(|command| command.name).collect::<Vec<_>>().join(" ")
}

/// Whether another program's words follow the command's flags.
fn runs_something(command: &Command) -> bool {
    command.takes.contains(&Scope::Run)
}

/// The words that can follow a command that is not about running something.
fn operands(command: &Command) -> String {
    match command.name {
        "completions" => "bash zsh fish".to_owned(),
        "caches" => "clear".to_owned(),
        "help" => names(),
        "profiles" => kennel_policy::profiles::NAMES.join(" "),
        "enable" | "disable" | "bypass" | "shim" => kennel_policy::profiles::AGENTS.join(" "),
        _ => String::new(),
    }
}

fn spellings(flag: &Flag) -> Vec<String> {
    flag.short.map(|short| format!("-{short}")).into_iter().chain([format!("--{}", flag.name)]).collect()
}

fn bash() -> String {
    let mut words = String::new();
    let mut values = String::new();
    let mut valued = Vec::new();
    for command in COMMANDS {
        let flags: Vec<_> = command
            .flags()
            .flat_map(|flag| {
                let attached = flag.attached.map(|word| format!("--{}={word}", flag.name));
                [format!("--{}", flag.name)].into_iter().chain(attached)
            })
            .collect();
        let offered = format!("{} {}", operands(command), flags.join(" "));
        let _ = writeln!(words, "        {}) words=\"{}\" ;;", command.name, offered.trim_start());
    }
    let runner = COMMANDS.iter().find(|command| runs_something(command));
    for flag in runner.iter().flat_map(|command| command.flags()).filter(|flag| flag.value.is_some()) {
        let pattern = spellings(flag).join("|");
        let reply = match flag.offer() {
            Offer::Files => {
                "COMPREPLY=($(compgen -f -- \"$current\")); compopt -o filenames 2>/dev/null".to_owned()
            }
            Offer::Folders => {
                "COMPREPLY=($(compgen -d -- \"$current\")); compopt -o filenames 2>/dev/null".to_owned()
            }
            Offer::Variables => "COMPREPLY=($(compgen -e -- \"$current\"))".to_owned(),
            Offer::Words(words) => {
                format!("COMPREPLY=($(compgen -W \"{}\" -- \"$current\"))", words.join(" "))
            }
            Offer::Nothing => ":".to_owned(),
        };
        let _ = writeln!(values, "        {pattern}) {reply}; return ;;");
        valued.push(pattern);
    }
    let runners: Vec<_> = COMMANDS.iter().filter(|c| runs_something(c)).map(|c| c.name).collect();
    format!(
        r#"# bash completions for kennel
_kennel() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "{names} --help --version" -- "$current"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
        {runners})
            # Past kennel's own flags, the words are another command's.
            local i=2
            while ((i < COMP_CWORD)); do
                case ${{COMP_WORDS[i]}} in
                    --) ((i++)); break ;;
                    {valued}) ((i += 2)) ;;
                    -*) ((i++)) ;;
                    *) break ;;
                esac
            done
            if [[ $i -lt $COMP_CWORD || ($i -eq $COMP_CWORD && (${{COMP_WORDS[i-1]}} == -- || $current != -*)) ]]; then
                if declare -F _command_offset >/dev/null; then
                    _command_offset $i
                else
                    COMPREPLY=($(compgen -c -- "$current"))
                fi
                return
            fi
            ;;
    esac
    case $previous in
{values}    esac
    case ${{COMP_WORDS[1]}} in
{words}        *) return ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _kennel kennel
"#,
        names = names(),
        runners = runners.join("|"),
        valued = valued.join("|"),
    )
}

fn zsh() -> String {
    let mut text = String::from("#compdef kennel\n# zsh completions for kennel\n_kennel() {\n");
    text.push_str("    if ((CURRENT == 2)); then\n        local -a commands=(\n");
    for command in COMMANDS {
        let _ = writeln!(text, "            {}", quote_zsh(&format!("{}:{}", command.name, command.help)));
    }
    text.push_str("        )\n        _describe command commands\n        return\n    fi\n");
    text.push_str("    local kennel_command=$words[2]\n    shift words\n    ((CURRENT--))\n");
    text.push_str("    case $kennel_command in\n");
    for command in COMMANDS {
        let _ = writeln!(text, "        {})\n            _arguments -s -S \\", command.name);
        for flag in command.flags() {
            let _ = writeln!(text, "                {} \\", zsh_flag(flag));
        }
        let rest = match operands(command).as_str() {
            _ if runs_something(command) => {
                "'(-)1:command: _command_names -e' '*::arguments: _normal'".to_owned()
            }
            "" => "':: :'".to_owned(),
            words => format!("'1:word:({words})'"),
        };
        let _ = writeln!(text, "                {rest}\n            ;;");
    }
    text.push_str("    esac\n}\nif [[ $funcstack[1] == _kennel ]]; then _kennel \"$@\"; else compdef _kennel kennel; fi\n");
    text
}

fn zsh_flag(flag: &Flag) -> String {
    let star = if flag.repeatable { "*" } else { "" };
    let help = flag.help.replace('[', "\\[").replace(']', "\\]").replace(':', "\\:");
    let value = flag.value.map(|value| {
        let action = match flag.offer() {
            Offer::Files => "_files".to_owned(),
            Offer::Folders => "_files -/".to_owned(),
            Offer::Variables => "_parameters -g \"*export*\"".to_owned(),
            Offer::Words(words) => format!("({})", words.join(" ")),
            Offer::Nothing => " ".to_owned(),
        };
        format!(":{}:{action}", value.replace('[', "\\[").replace(']', "\\]").replace(':', "\\:"))
    });
    // `=-` says that the value is attached, two colons that it can be left out.
    let value = value.or(flag.attached.map(|word| format!("::when:({word})")));
    let equals = match (flag.value, flag.attached) {
        (Some(_), _) => "=",
        (_, Some(_)) => "=-",
        _ => "",
    };
    let long =
        quote_zsh(&format!("{star}--{}{equals}[{help}]{}", flag.name, value.clone().unwrap_or_default()));
    match flag.short {
        None => long,
        Some(short) => {
            let plus = if flag.value.is_some() { "+" } else { "" };
            let short = format!("{star}-{short}{plus}[{help}]{}", value.unwrap_or_default());
            format!("{} {long}", quote_zsh(&short))
        }
    }
}

fn quote_zsh(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn fish() -> String {
    let mut text = format!(
        "# fish completions for kennel\n\
         # Whether the words so far are still kennel's own: a command to run has not begun.\n\
         function __kennel_in\n    \
             set -l words (commandline -opc)\n    \
             test (count $words) -ge 2; and test $words[2] = $argv[1]; or return 1\n    \
             not contains -- -- $words\n\
         end\n\
         function __kennel_runs\n    \
             set -l words (commandline -opc)\n    \
             test (count $words) -ge 2; and test $words[2] = $argv[1]\n\
         end\n\
         complete -c kennel -f\n\
         complete -c kennel -n 'test (count (commandline -opc)) -eq 1' -a '{}'\n",
        names()
    );
    for command in COMMANDS {
        let inside = format!("-n '__kennel_in {}'", command.name);
        let operands = operands(command);
        if !operands.is_empty() {
            let _ = writeln!(text, "complete -c kennel {inside} -a '{operands}'");
        }
        if runs_something(command) {
            // fish's function takes flags that have a value from the first short one on.
            let mut valued: Vec<_> =
                command.flags().filter(|flag| flag.value.is_some()).flat_map(spellings).collect();
            valued.sort_by_key(|spelling| spelling.starts_with("--"));
            let rest = format!("(__fish_complete_subcommand --fcs-skip=2 {})", valued.join(" "));
            let _ = writeln!(text, "complete -c kennel -n '__kennel_runs {}' -a '{rest}'", command.name);
        }
        for flag in command.flags() {
            let short = flag.short.map(|short| format!(" -s {short}")).unwrap_or_default();
            let value = match (flag.value, flag.offer()) {
                (None, _) => String::new(),
                (_, Offer::Files) => " -r -F".to_owned(),
                (_, Offer::Folders) => " -x -a '(__fish_complete_directories)'".to_owned(),
                (_, Offer::Variables) => " -x -a '(set -nx)'".to_owned(),
                (_, Offer::Words(words)) => format!(" -x -a '{}'", words.join(" ")),
                (_, Offer::Nothing) => " -x".to_owned(),
            };
            let help = flag.help.replace('\\', "\\\\").replace('\'', "\\'");
            let _ = writeln!(text, "complete -c kennel {inside} -l {}{short}{value} -d '{help}'", flag.name);
            if let Some(word) = flag.attached {
                let _ = writeln!(text, "complete -c kennel {inside} -a '--{}={word}' -d '{help}'", flag.name);
            }
        }
    }
    text
}
