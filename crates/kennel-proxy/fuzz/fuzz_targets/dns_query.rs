//! Queries from inside a sandbox: every one that is read has an answer of bounded size.
#![no_main]

use kennel_proxy::dns::query::{Answer, Code, Query, Unanswerable};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match Query::parse(bytes) {
    Ok(query) => {
        if let Some(name) = &query.name {
            assert!(name.len() <= 253 && !name.bytes().any(|byte| byte.is_ascii_control() || byte == b' '));
        }
        let answers = [Answer::Address([198, 18, 1, 0].into()), Answer::Pointer("a.test".into())];
        let reply = query.reply(Code::NoSuchName, &answers, Some("a reason"));
        assert!(reply.len() <= 512, "{}", reply.len());
        assert_eq!(reply[..2], bytes[..2]);
    }
    Err(Unanswerable::Reply(reply)) => assert_eq!(reply.len(), 12),
    Err(Unanswerable::Silence) => {}
});
