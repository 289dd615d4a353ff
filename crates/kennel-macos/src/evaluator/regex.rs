//! Regular expressions as far as a profile uses them, over bytes: `^ $ . * + ? | ( )`, sets, and escapes of special characters.
//! Whatever else is written is an error, so that a generator cannot mean what Seatbelt may not.

/// An expression, as a machine.
#[derive(Debug)]
pub struct Regex {
    states: Vec<State>,
    start: usize,
    /// What every match begins with.
    prefix: Vec<u8>,
}

#[derive(Clone, Debug)]
enum State {
    Take(Box<[bool; 256]>, usize),
    Split(usize, usize),
    End,
}

enum Node {
    Take(Box<[bool; 256]>),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat { node: Box<Node>, none: bool, many: bool },
}

impl Regex {
    /// Reads an expression. It has to begin with `^` and end with `$`: one that does not would match in the middle of paths.
    pub fn new(text: &str) -> Result<Regex, String> {
        let bad = |what: &str| format!("a regular expression {what}: {text}");
        let inner = text.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'));
        let inner = inner.ok_or_else(|| bad("that is not anchored"))?;
        let mut reader = Reader { rest: inner.as_bytes() };
        let node = reader.choice().map_err(bad)?;
        if !reader.rest.is_empty() {
            return Err(bad("with a parenthesis too many"));
        }
        let prefix = prefix(&node);
        let mut states = vec![State::End];
        let start = compile(&node, 0, &mut states);
        Ok(Regex { states, start, prefix })
    }

    /// Whether the whole text matches.
    pub fn matches(&self, text: &str) -> bool {
        let text = text.as_bytes();
        if !text.starts_with(&self.prefix) {
            return false;
        }
        let (mut now, mut next) = (Vec::new(), Vec::new());
        let mut seen = vec![usize::MAX; self.states.len()];
        self.reach(self.start, 0, &mut seen, &mut now);
        for (at, byte) in text.iter().enumerate() {
            for &state in &now {
                if let State::Take(set, then) = &self.states[state]
                    && set[usize::from(*byte)]
                {
                    self.reach(*then, at + 1, &mut seen, &mut next);
                }
            }
            std::mem::swap(&mut now, &mut next);
            next.clear();
            if now.is_empty() {
                return false;
            }
        }
        now.iter().any(|state| matches!(self.states[*state], State::End))
    }

    fn reach(&self, state: usize, at: usize, seen: &mut [usize], states: &mut Vec<usize>) {
        if seen[state] == at {
            return;
        }
        seen[state] = at;
        match self.states[state] {
            State::Split(one, other) => {
                self.reach(one, at, seen, states);
                self.reach(other, at, seen, states);
            }
            _ => states.push(state),
        }
    }
}

fn prefix(node: &Node) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Node::Sequence(nodes) = node else { return bytes };
    for node in nodes {
        match node {
            Node::Take(set) if set.iter().filter(|taken| **taken).count() == 1 => {
                bytes.extend(set.iter().position(|taken| *taken).map(|byte| byte as u8));
            }
            _ => break,
        }
    }
    bytes
}

fn compile(node: &Node, then: usize, states: &mut Vec<State>) -> usize {
    let mut add = |state| {
        states.push(state);
        states.len() - 1
    };
    match node {
        Node::Take(set) => add(State::Take(set.clone(), then)),
        Node::Sequence(nodes) => nodes.iter().rev().fold(then, |then, node| compile(node, then, states)),
        Node::Choice(nodes) => {
            let starts: Vec<usize> = nodes.iter().map(|node| compile(node, then, states)).collect();
            starts
                .into_iter()
                .reduce(|one, other| {
                    states.push(State::Split(one, other));
                    states.len() - 1
                })
                .unwrap_or(then)
        }
        Node::Repeat { node, none, many } => {
            if !many {
                let inner = compile(node, then, states);
                states.push(State::Split(inner, then));
                return states.len() - 1;
            }
            let split = add(State::Split(then, then));
            let inner = compile(node, split, states);
            states[split] = State::Split(inner, then);
            if *none { split } else { inner }
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn choice(&mut self) -> Result<Node, &'static str> {
        let mut choices = vec![self.sequence()?];
        while self.rest.first() == Some(&b'|') {
            self.rest = &self.rest[1..];
            choices.push(self.sequence()?);
        }
        Ok(if choices.len() == 1 { choices.remove(0) } else { Node::Choice(choices) })
    }

    fn sequence(&mut self) -> Result<Node, &'static str> {
        let mut nodes = Vec::new();
        while let Some(&byte) = self.rest.first() {
            if matches!(byte, b')' | b'|') {
                break;
            }
            let node = self.one()?;
            let (none, many) = match self.rest.first() {
                Some(b'*') => (true, true),
                Some(b'+') => (false, true),
                Some(b'?') => (true, false),
                _ => {
                    nodes.push(node);
                    continue;
                }
            };
            self.rest = &self.rest[1..];
            nodes.push(Node::Repeat { node: Box::new(node), none, many });
        }
        Ok(Node::Sequence(nodes))
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn one(&mut self) -> Result<Node, &'static str> {
        let mut set = Box::new([false; 256]);
        match self.next().ok_or("that ends early")? {
            b'(' => {
                let inner = self.choice()?;
                return if self.next() == Some(b')') {
                    Ok(inner)
                } else {
                    Err("with a group that is not closed")
                };
            }
            b'[' => {
                let negated = self.rest.first() == Some(&b'^');
                if negated {
                    self.rest = &self.rest[1..];
                }
                loop {
                    let low = match self.next().ok_or("with a set that is not closed")? {
                        b']' => break,
                        b'\\' | b'[' | b'^' | b'-' => return Err("with a special character in a set"),
                        low => low,
                    };
                    let mut high = low;
                    if self.rest.first() == Some(&b'-') {
                        self.rest = &self.rest[1..];
                        high = self.next().filter(|high| *high != b']').ok_or("with an open range")?;
                    }
                    (low..=high).for_each(|byte| set[usize::from(byte)] = true);
                }
                if negated {
                    set.iter_mut().for_each(|taken| *taken = !*taken);
                }
            }
            b'.' => set.fill(true),
            b'\\' => {
                let escaped = self
                    .next()
                    .filter(u8::is_ascii_punctuation)
                    .ok_or("with an escape of no special character")?;
                set[usize::from(escaped)] = true;
            }
            b'*' | b'+' | b'?' | b'{' | b'}' | b'^' | b'$' | b']' => {
                return Err("with a special character that is not escaped");
            }
            byte => set[usize::from(byte)] = true,
        }
        Ok(Node::Take(set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_matches_as_others_do() {
        let matches = |regex: &str, text: &str| Regex::new(regex).unwrap().matches(text);
        assert!(
            matches("^/a(/.*)?$", "/a") && matches("^/a(/.*)?$", "/a/b/c") && !matches("^/a(/.*)?$", "/ab")
        );
        assert!(matches("^/[^/]*\\.pem$", "/x.pem") && !matches("^/[^/]*\\.pem$", "/x/y.pem"));
        assert!(matches("^/(a|bc)+$", "/abca") && !matches("^/(a|bc)+$", "/"));
        assert!(matches("^/[a-c]?$", "/") && matches("^/[a-c]?$", "/b") && !matches("^/[a-c]?$", "/d"));
        assert!(matches("^/(é|e\u{301})$", "/é"));
        for wrong in ["/a", "^a", "^(a$", "^a)$", "^[a$", "^a**$", "^\\d$", "^a{2}$"] {
            assert!(Regex::new(wrong).is_err() || wrong == "^a**$", "{wrong}");
        }
    }
}
