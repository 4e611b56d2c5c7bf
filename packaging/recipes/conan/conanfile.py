"""Keel for Conan 2: conan create . --build=missing"""
from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, rm, rmdir


class Keel(ConanFile):
    name = "keel"
    version = "@VERSION@"
    license = "MIT"
    description = "A general-purpose malloc with bounded slow paths"
    topics = "malloc", "allocator", "memory", "latency"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "flavour": ["plain", "secure", "debug"]}
    default_options = {"shared": True, "flavour": "plain"}

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("Keel runs on Linux on x86-64 and arm64")

    def configure(self):
        self.settings.rm_safe("compiler.libcxx")
        self.settings.rm_safe("compiler.cppstd")

    def layout(self):
        cmake_layout(self, src_folder="src")

    def source(self):
        get(self, "@URL@/keel-@VERSION@.tar.xz", sha256="@SHA256_SOURCE@", strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.variables["KEEL_TESTS"] = False
        for flavour in "secure", "debug":
            toolchain.variables["KEEL_" + flavour.upper()] = self.options.flavour == flavour
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="flavour" if self.options.flavour != "plain" else "libraries")

    def package(self):
        copy(self, "LICENSE", self.source_folder, self.package_folder + "/licenses")
        CMake(self).install(component="libraries")
        rm(self, "*.a" if self.options.shared else "*.so*", self.package_folder + "/lib")
        # Consumers get targets from Conan.
        rmdir(self, self.package_folder + "/lib/cmake")
        rmdir(self, self.package_folder + "/lib/pkgconfig")

    def package_info(self):
        suffix = "" if self.options.flavour == "plain" else f"-{self.options.flavour}"
        self.cpp_info.set_property("cmake_target_name", f"keel::keel{suffix}")
        self.cpp_info.set_property("pkg_config_name", f"keel{suffix}")
        self.cpp_info.libs = [f"keel{suffix}"]
        self.cpp_info.system_libs = ["pthread", "dl"]
