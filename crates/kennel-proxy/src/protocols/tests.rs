use super::http_line::{Line, LineReader, UNKNOWN};
use super::*;
use crate::http::head::Request;
use proptest::prelude::*;

fn terms(port: u16, named: &[Protocol]) -> Terms {
    Terms { name: "a.test".into(), port, named: named.to_vec(), allow_ech: false }
}

fn on(port: u16) -> Opening {
    Opening::new(terms(port, &[]), UNKNOWN)
}

fn refused(step: &Step) -> bool {
    matches!(step, Step::Refuse(_))
}

/// A ClientHello with this name, or none.
fn hello(name: Option<&str>) -> Vec<u8> {
    let vector = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let extension = name.map_or(Vec::new(), |name| {
        [vec![0, 0], vector(&vector(&[vec![0], vector(name.as_bytes())].concat()))].concat()
    });
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend_from_slice(&vector(&extension));
    let message = [&[1][..], &(body.len() as u32).to_be_bytes()[1..], &body].concat();
    [&[22, 3, 1][..], &vector(&message)].concat()
}

/// A ServerHello that takes the hello.
fn taken() -> Vec<u8> {
    [&[22, 3, 3, 0, 74, 2, 0, 0, 70, 3, 3][..], &[5; 68]].concat()
}

#[test]
fn bytes_that_nobody_knows_are_refused_on_every_port() {
    for bytes in [
        &b"\0\0\0\0"[..],
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
        b"\r\n\r\n\0\r\nQUIT\n",
        b"\x15\x03\x01\x00\x02\x01\x00",
        b"\x80\x2e\x01\x03\x01",
        b" GET / HTTP/1.1\r\n",
        b"AMQP\0\0\x09\x01",
        b"{\"hello\": 1}",
    ] {
        for port in [22, 80, 443, 5432, 6379, 8080, 9418] {
            assert!(refused(&on(port).client(bytes)), "{port} {:?}", bytes.escape_ascii().to_string());
        }
    }
}

#[test]
fn tls_is_carried_for_the_name_and_opens_when_the_server_has_taken_it() {
    let mut opening = on(443);
    let bytes = hello(Some("A.test"));
    assert_eq!(opening.client(&bytes[..9]), Step::More);
    assert_eq!(opening.client(&bytes), Step::Pass(bytes.len()));
    // Early data and a second hello wait for the server's word.
    assert_eq!(opening.client(&[23, 3, 3, 0, 1, 9, 22]), Step::Hold);
    assert_eq!(opening.client(&hello(Some("b.test"))), Step::Hold);
    assert_eq!(opening.server(&taken()[..20]), Ok(()));
    assert_eq!(opening.client(&[22, 3, 3, 0, 1, 16]), Step::Hold);
    assert_eq!(opening.server(&taken()[20..]), Ok(()));
    assert_eq!(opening.client(&[22, 3, 3, 0, 1, 16]), Step::Open);
    for other in [Some("b.test"), Some("a.test."), Some("xa.test"), None] {
        assert!(refused(&on(443).client(&hello(other))), "{other:?}");
    }
}

#[test]
fn a_second_hello_is_judged_when_the_server_asks_for_one() {
    let retry = [
        0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
        0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
    ];
    let asks = [&[22, 3, 3, 0, 40, 2, 0, 0, 36, 3, 3][..], &retry, &[0; 2]].concat();
    for (name, good) in [("a.test", true), ("b.test", false)] {
        let mut opening = on(443);
        let first = hello(Some("a.test"));
        assert_eq!(opening.client(&first), Step::Pass(first.len()));
        assert_eq!(opening.server(&asks), Ok(()));
        assert_eq!(opening.client(&[20, 3, 3, 0, 1, 1]), Step::Pass(6));
        let step = opening.client(&hello(Some(name)));
        assert_eq!(matches!(step, Step::Pass(_)), good, "{step:?}");
        if good {
            assert_eq!(opening.client(b"anything"), Step::Open);
        }
    }
    // One that nobody asked for, in plain, is told from what may come: a key exchange, or an encrypted message.
    for (next, good) in [
        (hello(Some("b.test")), false),
        (hello(Some("a.test")), false),
        (vec![22, 3, 3, 0, 70, 16], true),
        ([&[20, 3, 3, 0, 1, 1][..], &[22, 3, 3, 0, 40, 1]].concat(), true),
        (vec![23, 3, 3, 0, 40, 1], true),
    ] {
        let mut opening = on(443);
        assert!(matches!(opening.client(&hello(Some("a.test"))), Step::Pass(_)));
        assert_eq!(opening.server(&taken()), Ok(()));
        assert_eq!(opening.client(&next) == Step::Open, good, "{next:?}");
    }
}

#[test]
fn a_server_that_does_not_answer_in_tls_is_not_heard() {
    let mut opening = on(443);
    assert!(matches!(opening.client(&hello(Some("a.test"))), Step::Pass(_)));
    assert_eq!(opening.server(b"HTTP/1.1 200 OK\r\n"), Err(DenyReason::Answer("TLS")));
    // Nor is TLS begun with one that has spoken already.
    let mut opening = on(443);
    assert_eq!(opening.server(b"hello"), Ok(()));
    assert!(refused(&opening.client(&hello(Some("a.test")))));
}

#[test]
fn a_hello_may_name_nobody_only_where_a_rule_names_the_protocol() {
    let bytes = hello(None);
    assert_eq!(on(6379).client(&bytes), Step::Refuse(DenyReason::NoServerName));
    let mut named = Opening::new(terms(6380, &[Protocol::Redis]), UNKNOWN);
    assert!(matches!(named.client(&bytes), Step::Pass(_)));
    let mut named = Opening::new(terms(6380, &[Protocol::Redis]), UNKNOWN);
    assert!(refused(&named.client(&hello(Some("b.test")))));
}

#[test]
fn ssh_tells_itself_on_every_port_and_waits_for_its_server() {
    for port in [22, 443, 2222] {
        let mut opening = on(port);
        assert_eq!(opening.client(b"SSH-2"), Step::More);
        assert_eq!(opening.client(b"SSH-2.0-OpenSSH_9.2\r\n\0\0"), Step::Pass(21));
        assert_eq!(opening.client(b"\0\0"), Step::Hold);
        assert_eq!(opening.server(b"welcome\r\nSSH-1.99-x\r\n"), Ok(()));
        assert_eq!(opening.client(b"\0\0"), Step::Open);
    }
    assert_eq!(on(22).client(b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u7\r\n"), Step::Pass(40));
    for bad in [
        &b"SSH-1.5-x\r\n"[..],
        b"SSH-2.0-\x01\r\n",
        b"SSH-2.0-x http://evil.test/\r\n",
        &[b"SSH-2.0-".to_vec(), vec![b'x'; 300]].concat(),
    ] {
        assert!(refused(&on(22).client(bad)), "{:?}", bad.escape_ascii().to_string());
    }
    let mut opening = on(22);
    assert_eq!(opening.client(b"SSH-2.0-x\r\nGET / HTTP/1.1\r\n"), Step::Pass(11));
    assert_eq!(opening.server(b"HTTP/1.1 400 Bad Request\r\n"), Ok(()));
    assert_eq!(opening.client(b"GET / HTTP/1.1\r\n"), Step::Hold);
}

#[test]
fn postgres_begins_on_its_port_and_where_a_rule_says_so() {
    let tls = [0, 0, 0, 8, 4, 210, 22, 47];
    let start = [&[0, 0, 0, 16, 0, 3, 0, 0][..], b"user\0x\0\0"].concat();
    let mut opening = on(5432);
    assert_eq!(opening.client(&tls[..6]), Step::More);
    assert_eq!(opening.client(&tls), Step::Pass(8));
    assert_eq!(opening.client(&hello(Some("a.test"))), Step::Hold);
    assert_eq!(opening.server(b"S"), Ok(()));
    assert!(matches!(opening.client(&hello(None)), Step::Pass(_)), "the server speaks PostgreSQL");
    assert_eq!(opening.server(&taken()), Ok(()));
    assert_eq!(opening.client(&[23]), Step::Open);
    // Without TLS, the first word of the server opens it.
    let mut opening = on(5432);
    assert_eq!(opening.client(&tls), Step::Pass(8));
    assert_eq!(opening.server(b"N"), Ok(()));
    assert_eq!(opening.client(&start), Step::Pass(16));
    assert_eq!(opening.client(b"p"), Step::Hold);
    assert_eq!(opening.server(b"R"), Ok(()));
    assert_eq!(opening.client(b"p"), Step::Open);
    // Another name, another server's answer, another port.
    let mut opening = on(5432);
    assert_eq!(opening.client(&tls), Step::Pass(8));
    assert_eq!(opening.server(b"S"), Ok(()));
    assert!(refused(&opening.client(&hello(Some("b.test")))));
    let mut opening = on(5432);
    assert_eq!(opening.client(&start), Step::Pass(16));
    assert_eq!(opening.server(b"HTTP/1.1 400"), Ok(()));
    assert!(refused(&opening.client(b"GET / HTTP/1.1\r\n")));
    assert!(refused(&on(5433).client(&start)));
    let lines = [&[0, 0, 0, 23, 0, 3, 0, 0][..], b"user\0\nGET /\r\n\0\0"].concat();
    assert!(refused(&on(5432).client(&lines)), "a request of another protocol in it");
    let mut named = Opening::new(terms(5433, &[Protocol::Postgres]), UNKNOWN);
    assert_eq!(named.client(&start), Step::Pass(16));
}

#[test]
fn mysql_waits_for_the_greeting_and_its_tls_is_judged() {
    let greeting = [&[74, 0, 0, 0, 10][..], b"8.0.33\0"].concat();
    let ask = [&[32, 0, 0, 1, 0x85, 0xae][..], &[0; 30]].concat();
    let mut opening = on(3306);
    assert_eq!(opening.client(&ask), Step::Hold);
    assert_eq!(opening.server(&greeting), Ok(()));
    assert_eq!(opening.client(&ask), Step::Pass(36));
    assert!(refused(&opening.client(&hello(Some("b.test")))));
    let mut opening = on(3306);
    assert_eq!(opening.server(&greeting), Ok(()));
    assert_eq!(opening.client(&[90, 0, 0, 1, 0x85, 0xa6, 1]), Step::Open);
    let mut opening = on(3306);
    assert_eq!(opening.server(b"HTTP/1.1 408"), Ok(()));
    assert!(refused(&opening.client(&ask)));
}

#[test]
fn redis_is_known_by_the_form_of_its_commands() {
    for good in [&b"*1\r\n$4\r\nPING\r\n"[..], b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$9\r\n"] {
        for end in 1..14 {
            let step = on(6379).client(&good[..end]);
            assert!(matches!(step, Step::More | Step::Open), "{end} {step:?}");
        }
        assert_eq!(on(6379).client(good), Step::Open);
        assert!(refused(&on(6380).client(good)));
    }
    for bad in [
        &b"PING\r\n"[..],
        b"*0\r\n$4\r\nPING",
        b"*1\r\n$4\r\nGET ",
        b"*x",
        b"*1\n$4",
        b"*12345678\r\n",
        b"*1\r\n+",
    ] {
        assert!(refused(&on(6379).client(bad)), "{:?}", bad.escape_ascii().to_string());
    }
}

#[test]
fn git_names_its_host_in_its_first_packet() {
    let packet = |text: &str| format!("{:04x}{text}", text.len() + 4).into_bytes();
    for good in ["host=a.test\0", "host=A.test:9418\0\0version=2\0", ""] {
        let bytes = packet(&format!("git-upload-pack /x.git\0{good}"));
        assert_eq!(on(9418).client(&bytes[..20]), Step::More);
        assert_eq!(on(9418).client(&bytes), Step::Open, "{good:?}");
        assert!(refused(&on(80).client(&bytes)));
    }
    for bad in [
        "host=b.test\0",
        "host=a.test:1\0",
        "host=a.test\0host=b.test\0",
        "host=\0",
        "hosts=x\0",
        "host=a.test\0\0x=y\0",
    ] {
        let step = on(9418).client(&packet(&format!("git-upload-pack /x.git\0{bad}")));
        assert!(refused(&step), "{bad:?} {step:?}");
    }
}

#[test]
fn mail_waits_for_the_greeting_and_its_tls_is_judged() {
    for (port, greeting, ask) in [
        (25, "220 mail.test ESMTP\r\n", "starttls\r\n"),
        (587, "220-wait\r\n", "STARTTLS\r\n"),
        (143, "* OK ready\r\n", "a1 STARTTLS\r\n"),
        (110, "+OK ready\r\n", "STLS\r\n"),
    ] {
        for (name, good) in [(Some("a.test"), true), (None, true), (Some("b.test"), false)] {
            let mut opening = on(port);
            assert_eq!(opening.client(b"EHLO x\r\n"), Step::Hold, "{port}");
            assert_eq!(opening.server(greeting.as_bytes()), Ok(()));
            assert_eq!(opening.client(b"EHLO x\r\nNO"), Step::Pass(10));
            assert_eq!(opening.client(b"OP\r\n"), Step::Pass(4));
            let upgrade = [ask.as_bytes(), &hello(name)].concat();
            assert_eq!(opening.client(&upgrade), Step::Pass(ask.len()));
            assert_eq!(opening.server(b"220 go on\r\n"), Ok(()));
            let step = opening.client(&hello(name));
            assert_eq!(matches!(step, Step::Pass(_)), good, "{step:?}");
            if good {
                assert_eq!(opening.server(&taken()), Ok(()));
                assert_eq!(opening.client(&[23]), Step::Open);
            }
        }
        let mut opening = on(port);
        assert_eq!(opening.server(b"HTTP/1.1 408 Request Timeout\r\n"), Ok(()));
        assert!(refused(&opening.client(b"GET / HTTP/1.1\r\n")));
    }
}

#[test]
fn rsync_is_known_by_both_greetings() {
    let mut opening = on(873);
    assert_eq!(opening.client(b"@RSYNCD: 31.0\n"), Step::Hold);
    assert_eq!(opening.server(b"@RSYNCD: 31.0\n"), Ok(()));
    assert_eq!(opening.client(b"@RSYNCD: 31.0\n"), Step::Open);
    assert!(refused(&on(873).client(b"GET / HTTP/1.1\r\n")));
}

fn line(bytes: &[u8]) -> Line {
    LineReader::default().read(bytes)
}

#[test]
fn http_is_known_by_its_first_line() {
    for text in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"\r\nGET / HTTP/1.0\r\n",
        b"M-SEARCH * HTTP/1.1\r\n",
        b"get / HTTP/1.1\r\n",
        b"G3T / HTTP/1.1\r\n",
    ] {
        assert_eq!(line(text), Line::Http, "{:?}", text.escape_ascii().to_string());
        for end in 0..text.len() {
            assert_eq!(line(&text[..end]), Line::More);
        }
    }
    for text in [
        &b" GET / HTTP/1.1\r\n"[..],
        b"GET / HTTP/01.1\r\n",
        b"GET / HTTP/1.1\n",
        b"GET / HTTP/1.1 \r\n",
        b"GET / http/1.1\r\n",
        b"GET / HTTP/1.2\r\n",
        b"GET  / HTTP/1.1\r\n",
        b"GET\t/ HTTP/1.1\r\n",
        b"GET /\r\n",
        b"\nGET / HTTP/1.1\r\n",
        b"GET /\x80 HTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"DESCRIBE rtsp://x RTSP/1.0\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"NICK x\r\n",
        b"\x16\x03\x01",
        b"\r\n\r\n\0",
        b"\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n",
        b"*1\r\n$4\r\nPING\r\n",
    ] {
        assert!(matches!(line(text), Line::Other(_)), "{:?}", text.escape_ascii().to_string());
    }
    let long = [b"GET /".to_vec(), vec![b'x'; 70_000]].concat();
    assert!(matches!(line(&long), Line::Other(_)));
}

proptest! {
    #[test]
    fn looking_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100), heard in proptest::collection::vec(any::<u8>(), 0..40)) {
        let _ = line(&bytes);
        for port in [22, 25, 110, 143, 443, 873, 3306, 5432, 6379, 9418] {
            let mut opening = on(port);
            let _ = opening.server(&heard);
            if let Step::Pass(count) = opening.client(&bytes) {
                prop_assert!(count <= bytes.len());
            }
        }
    }

    /// The reader of heads and the reader of first lines agree on what a request is.
    #[test]
    fn what_a_strict_reader_takes_for_a_request_is_seen_as_one(
        text in "(\r\n)?[ A-Za-z*/:\r\n\t]{0,12}(GET|get|PRI|)[ \t]?[!-~]{0,6}[ ]{0,2}(HTTP/1.[0-3]|HTTP/2.0|http/1.1)?\r?\n",
    ) {
        let skip = crate::http::head::leading_empty_lines(text.as_bytes());
        let head = format!("{}\r\n", &text[skip..]);
        let taken = Request::parse(head.as_bytes()).is_ok() && head.matches("\r\n").count() == 2;
        prop_assert_eq!(line(text.as_bytes()) == Line::Http, taken, "{:?}", text);
    }

    /// However the bytes are cut into pieces, they are the same.
    #[test]
    fn a_first_line_is_the_same_in_pieces(text in "[GETPRI \r\n/]{0,8}( / HTTP/[12]\\.[01]\r\n)?", cut in 0usize..20) {
        let bytes = text.as_bytes();
        let mut reader = LineReader::default();
        let first = reader.read(&bytes[..cut.min(bytes.len())]);
        if first == Line::More {
            prop_assert_eq!(reader.read(bytes), line(bytes));
        } else {
            prop_assert_eq!(first, line(bytes));
        }
    }
}
