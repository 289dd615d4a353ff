# kennel for Nix: `nix-build packaging/nix`, or `callPackage ./packaging/nix/package.nix { }` from a flake.
{ lib, rustPlatform, installShellFiles }:

rustPlatform.buildRustPackage {
  pname = "kennel";
  version = "0.1.0";

  src = lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;

  # The C library is linked dynamically, as elsewhere in Nix: .cargo/config.toml asks for a static one.
  postPatch = "rm .cargo/config.toml";
  cargoBuildFlags = [ "--package" "kennel-cli" ];
  # The tests make sandboxes, and Nix builds in one that denies that.
  doCheck = false;

  nativeBuildInputs = [ installShellFiles ];
  postInstall = ''
    $out/bin/kennel man > kennel.1
    installManPage kennel.1
    for shell in bash zsh fish; do $out/bin/kennel completions $shell > kennel.$shell; done
    installShellCompletion kennel.{bash,zsh,fish}
  '';

  meta = {
    description = "Run a command so that it can do only what you allow";
    license = with lib.licenses; [ mit asl20 ];
    mainProgram = "kennel";
    platforms = lib.platforms.linux ++ lib.platforms.darwin;
  };
}
