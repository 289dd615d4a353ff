use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::LocalSet;

use super::*;

/// Serves one connection with this, and says these bytes to it; what comes back until the connection ends.
fn serve_with(
    bytes: &str,
    service: impl AsyncFn(head::Request, AnyBody) -> Result<Answer, BoxError> + 'static,
) -> String {
    run(async move {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let serving = tokio::task::spawn_local(async move {
            serve(ClientStream::new(server), Times::default(), service, |_| ()).await;
        });
        client.write_all(bytes.as_bytes()).await.unwrap();
        let said = all(&mut client).await;
        drop(client);
        serving.await.unwrap();
        said
    })
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(Duration::from_secs(10), test).await.expect("it takes too long")
    })
}

async fn all(client: &mut DuplexStream) -> String {
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

fn text(text: impl Into<Bytes>) -> Answer {
    let body: AnyBody = Box::pin(Full::new(text.into()).map_err(|never| match never {}));
    Answer { response: Response::new(body), then: None }
}

/// Parts without a length that is known before.
fn parts_of(parts: &'static [&'static str]) -> Answer {
    let mut left = parts.iter();
    let next = move |_: &mut Context<'_>| {
        Poll::Ready(
            left.next().map(|part| Ok::<_, BoxError>(Frame::data(Bytes::from_static(part.as_bytes())))),
        )
    };
    struct Parts<F>(F);
    impl<F: FnMut(&mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> + Unpin> Body for Parts<F> {
        type Data = Bytes;
        type Error = BoxError;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            (self.0)(context)
        }
    }
    Answer { response: Response::new(Box::pin(Parts(next))), then: None }
}

async fn echo(request: head::Request, body: AnyBody) -> Result<Answer, BoxError> {
    let body = body.collect().await?.to_bytes();
    Ok(text(format!("{} {} [{}]", request.method, request.target, String::from_utf8_lossy(&body))))
}

async fn never(_: head::Request, _: AnyBody) -> Result<Answer, BoxError> {
    panic!("it was served")
}

async fn in_parts(_: head::Request, _: AnyBody) -> Result<Answer, BoxError> {
    Ok(parts_of(&["ab", "", "cde"]))
}

#[test]
fn requests_come_one_behind_the_other_each_with_its_body() {
    let said = serve_with(
        "POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\none\
         POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\ntwo\r\n0\r\nX: y\r\n\r\n\
         HEAD /c HTTP/1.1\r\n\r\n\
         GET /d HTTP/1.1\r\nConnection: close\r\n\r\n",
        echo,
    );
    let expected = "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\nPOST /a [one]\
                    HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\nPOST /b [two]\
                    HTTP/1.1 200 OK\r\n\r\n\
                    HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nGET /d []";
    assert_eq!(said, expected);
}

#[test]
fn what_could_be_read_in_two_ways_reaches_no_service() {
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
        "Content-Length: +4\r\n\r\nabcd",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Host: b.test\r\n\r\n",
        "X: a\nY: b\r\n\r\n",
        "X: a\r Y: b\r\n\r\n",
        " folded\r\n\r\n",
        "Content_Length: 4\r\n\r\nabcd",
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: a.test\r\n{fields}");
        let said = serve_with(&request, never);
        assert!(
            said.starts_with("HTTP/1.1 400 ") && said.contains("the request is refused: "),
            "{fields}{said}"
        );
    }
    let said = serve_with("GET / HTTP/2.0\r\n\r\n", never);
    assert!(said.starts_with("HTTP/1.1 505 "), "{said}");
}

#[test]
fn broken_chunks_break_the_body_and_the_connection() {
    let said = serve_with(
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcGET /smuggled HTTP/1.1\r\n\r\n",
        async |request: head::Request, body: AnyBody| match echo(request, body).await {
            Ok(_) => panic!("it was whole"),
            Err(_) => Ok::<_, BoxError>(text("broken")),
        },
    );
    assert!(said.contains("connection: close") && said.ends_with("broken"), "{said}");
}

#[test]
fn a_client_that_waits_with_its_body_is_told_to_go_on_only_if_it_is_read() {
    let head = "POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    let said = serve_with(&format!("{head}okGET / HTTP/1.1\r\nConnection: close\r\n\r\n"), echo);
    assert!(said.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), "{said}");
    assert!(said.contains("POST / [ok]") && said.ends_with("GET / []"), "{said}");
    let start = std::time::Instant::now();
    run(async {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let serving = tokio::task::spawn_local(async move {
            let no = async |_: head::Request, _: AnyBody| Ok::<_, BoxError>(text("no"));
            serve(ClientStream::new(server), Times::default(), no, |_| ()).await;
        });
        client.write_all(head.as_bytes()).await.unwrap();
        let said = all(&mut client).await;
        assert!(said.starts_with("HTTP/1.1 200 ") && said.contains("connection: close"), "{said}");
        drop(client);
        serving.await.unwrap();
    });
    assert!(start.elapsed() < Duration::from_secs(1), "nobody waits for what does not come");
}

#[test]
fn a_body_that_nobody_wants_is_read_so_that_the_client_hears_why() {
    let said = serve_with(
        "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloGET /next HTTP/1.1\r\nConnection: close\r\n\r\n",
        async |request: head::Request, _: AnyBody| Ok::<_, BoxError>(text(request.target)),
    );
    assert!(said.contains("\r\n\r\n/HTTP/1.1 200 OK") && said.ends_with("/next"), "{said}");
}

#[test]
fn an_answer_without_a_length_is_cut_into_chunks_or_lasts_until_the_end() {
    let said = serve_with("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", in_parts);
    assert!(said.contains("transfer-encoding: chunked"), "{said}");
    assert!(said.ends_with("\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"), "{said}");
    let said = serve_with("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", in_parts);
    assert!(said.contains("connection: close") && said.ends_with("\r\n\r\nabcde"), "{said}");
}

#[test]
fn an_answer_that_is_not_as_long_as_it_says_ends_the_connection() {
    for (stated, said) in [("2", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"), ("9", "abcde")] {
        let answer = async move |_: head::Request, _: AnyBody| {
            let mut answer = parts_of(&["abcde"]);
            answer.response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static(stated));
            Ok::<_, BoxError>(answer)
        };
        let got = serve_with("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", answer);
        assert!(said.starts_with(&got) || got.ends_with(said), "{got}");
        assert!(!got.contains("abcdeHTTP"), "{got}");
    }
}

#[test]
fn a_client_that_goes_away_ends_what_it_asked_for() {
    struct Asked(Rc<RefCell<bool>>);
    impl Drop for Asked {
        fn drop(&mut self) {
            *self.0.borrow_mut() = true;
        }
    }
    let ended = Rc::new(RefCell::new(false));
    let own = Rc::clone(&ended);
    run(async move {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let serving = tokio::task::spawn_local(async move {
            let service = async |_: head::Request, body: AnyBody| {
                let _asked = Asked(Rc::clone(&own));
                let _ = body.collect().await;
                std::future::pending::<()>().await;
                Ok::<_, BoxError>(text(""))
            };
            serve(ClientStream::new(server), Times::default(), service, |_| ()).await;
        });
        client.write_all(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx").await.unwrap();
        tokio::task::yield_now().await;
        drop(client);
        serving.await.unwrap();
    });
    assert!(*ended.borrow());
}
