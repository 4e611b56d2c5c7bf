# homebrew.rb FORMULA PREFIX: installs the formula into PREFIX and runs its test, by a stand-in for
# the parts of Homebrew that it uses. It must lie beside the archive that it names.
require "digest"
require "fileutils"
require "pathname"
require "tmpdir"

class Pathname
  def install(files)
    mkpath
    FileUtils.cp_r(files, self, preserve: true)
  end
end

class Formula
  class << self
    attr_reader :fields, :test_block

    %i[desc homepage url sha256 license].each do |name|
      define_method(name) { |value| (@fields ||= {})[name] = value }
    end

    def depends_on(*) = nil
    def test(&block) = @test_block = block
  end

  attr_reader :prefix, :testpath

  def initialize(prefix)
    @prefix = Pathname.new(prefix)
    @testpath = Pathname.new(Dir.mktmpdir)
  end

  def bin = prefix/"bin"
  def version = self.class.fields[:url][/-(\d+\.\d+\.\d+)-/, 1]
  def shell_output(command) = `#{command}`.tap { raise command unless $?.success? }
  def assert_match(text, output) = output.include?(text) || raise("#{output} is not #{text}")
  def assert_path_exists(path) = path.exist? || raise("there is no #{path}")
  def system(*command) = Kernel.system(*command.map(&:to_s)) || raise(command.join(" "))
end

formula, prefix = ARGV.map { |path| File.expand_path(path) }
load formula
fields = Keel.fields
archive = fields[:url].delete_prefix("file://")
raise "the checksum is not that of #{archive}" if Digest::SHA256.file(archive) != fields[:sha256]
raise "the description is too long" if fields[:desc].length > 80

keel = Keel.new(prefix)
Dir.mktmpdir do |folder|
  Dir.chdir(folder) do
    keel.system("tar", "-xJf", archive, "--strip-components=1")
    keel.install
  end
end
Dir.chdir(keel.testpath) { keel.instance_eval(&Keel.test_block) }
