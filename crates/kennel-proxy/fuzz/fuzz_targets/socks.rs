//! SOCKS5 messages: none is longer than what there is, and none is read from its beginning only.
#![no_main]

use kennel_proxy::socks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((greeting, used))) = socks::greeting(bytes) {
        assert_eq!(socks::greeting(&bytes[..used]), Ok(Some((greeting, used))));
        assert_eq!(socks::greeting(&bytes[..used - 1]), Ok(None));
    }
    if let Ok(Some((login, used))) = socks::login(bytes) {
        assert_eq!(socks::login(&bytes[..used]), Ok(Some((login, used))));
        assert_eq!(socks::login(&bytes[..used - 1]), Ok(None));
    }
    if let Ok(Some((request, used))) = socks::request(bytes) {
        assert!(used <= bytes.len());
        if request.destination != socks::Destination::Unknown {
            assert_eq!(socks::request(&bytes[..used]), Ok(Some((request, used))));
            assert_eq!(socks::request(&bytes[..used - 1]), Ok(None));
        }
    }
});
