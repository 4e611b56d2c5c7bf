# Homebrew on Linux: brew install --formula ./keel.rb
class Keel < Formula
  desc "Memory allocator with bounded slow paths, and a lab that measures allocators"
  homepage "@URL@"
  url "@URL@/keel-@VERSION@-linux-x86_64.tar.xz"
  sha256 "@SHA256_LINUX@"
  license "MIT"

  depends_on arch: :x86_64
  depends_on :linux

  def install
    prefix.install Dir["*"]
  end

  test do
    assert_match "keel #{version}", shell_output("#{bin}/keel --version")
    system bin/"keel", "record", "-o", "ls.journal.parquet", "--", "/bin/ls"
    assert_path_exists testpath/"ls.journal.parquet"
  end
end
