# The parts of nixpkgs that packaging/recipes/nix uses, with the tools of this machine: the recipe is
# evaluated and built without a download.
{
  cmake = "cmake";
  ninja = "ninja";
  fetchurl = builtins.fetchurl;
  lib.licenses.mit = "MIT";
  stdenv.mkDerivation = recipe: derivation {
    inherit (recipe) version src nativeBuildInputs cmakeFlags ninjaFlags installPhase;
    name = "${recipe.pname}-${recipe.version}";
    system = builtins.currentSystem;
    builder = "/bin/bash";
    args = [ "-ec" ''
      export PATH=/usr/local/bin:/usr/bin:/bin
      command -v $nativeBuildInputs >/dev/null
      tar xf $src
      cd */
      cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release $cmakeFlags
      cd build
      ninja -j2 $ninjaFlags
      eval "$installPhase"
    '' ];
  };
}
