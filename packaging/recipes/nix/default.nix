# The libraries, from their sources: nix-build. The lab is in the prebuilt archive.
{ pkgs ? import <nixpkgs> { } }:

pkgs.stdenv.mkDerivation {
  pname = "keel";
  version = "@VERSION@";
  src = pkgs.fetchurl {
    url = "@URL@/keel-@VERSION@.tar.xz";
    sha256 = "@SHA256_SOURCE@";
  };
  nativeBuildInputs = [ pkgs.cmake pkgs.ninja ];
  cmakeFlags = [
    "-DKEEL_TESTS=OFF"
    "-DCMAKE_INSTALL_LIBDIR=lib"
    "-DCMAKE_INSTALL_INCLUDEDIR=include"
  ];
  ninjaFlags = [ "libraries" ];
  installPhase = ''
    cmake --install . --prefix $out --component libraries
  '';
  meta = {
    description = "A general-purpose malloc with bounded slow paths";
    license = pkgs.lib.licenses.mit;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
  };
}
