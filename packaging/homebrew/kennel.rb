# A formula for Homebrew, on macOS and Linux. `cargo xtask dist` writes a copy with the address and the checksum of the
# source in it; put that into a tap, as Formula/kennel.rb.
class Kennel < Formula
  desc "Run a command so that it can do only what you allow"
  homepage "https://kennel.example/releases"
  url "https://kennel.example/releases/v0.1.0/kennel-0.1.0-source.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build

  def install
    system "cargo", "build", "--release", "--locked", "--package", "kennel-cli", "--target-dir", "target"
    bin.install Dir["target/*/release/kennel"].fetch(0)
    generate_completions_from_executable(bin/"kennel", "completions")
    (man1/"kennel.1").write Utils.safe_popen_read(bin/"kennel", "man")
  end

  test do
    assert_match "kennel #{version}", shell_output("#{bin}/kennel --version")
    assert_match "deny", shell_output("#{bin}/kennel schema")
  end
end
