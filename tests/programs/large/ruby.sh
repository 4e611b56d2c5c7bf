# needs: ruby
# debian: ruby
# about: JSON, strings, hashes, threads and the collector
# stresses: strings and tables beyond the 40 bytes of an object
# not shown: the objects' slots: they are in the interpreter's pages
source "$SUPPORT"
cat >work.rb <<'RUBY'
require "json"
require "digest"
require "set"
require "zlib"
require "strscan"
random = Random.new(7)
document = lambda do |depth|
  next [random.rand(10**9), random.rand, "text " * random.rand(30), nil, true].sample(random: random) if depth == 0
  (0...6).to_h { |i| ["key #{i} #{random.rand(1000)}", document.call(depth - 1)] }
end
text = JSON.generate(Array.new(12) { document.call(4) })
raise unless JSON.generate(JSON.parse(text)) == text
puts "json #{text.size} #{Digest::SHA256.hexdigest(text)}"
words = text.scan(/[a-z]+|\d+/)
puts "words #{words.size} #{words.tally.sort_by { |word, count| [-count, word] }.first(5)}"
puts "gsub #{text.gsub(/(\d)\1/) { "<#{$1}>" }.size}"
results = Array.new(6) do |n|
  Thread.new(n) do |seed|
    own = Random.new(seed)
    table = {}
    60000.times do |i|
      table[own.rand(5000)] = "x" * own.rand(300)
      table.delete(own.rand(5000)) if i % 3 == 0
    end
    [table.size, table.sum { |_, value| value.size }]
  end
end.map(&:value)
puts "threads #{results}"
Item = Struct.new(:name, :price, :tags)
items = Array.new(150_000) { |i| Item.new("item #{i * 7919 % 100_003}", i * 1.5, ["a#{i % 7}", "b#{i % 11}"]) }
puts "grouped #{items.group_by { |item| item.tags.join }.transform_values(&:size).sort.first(3)}"
puts "sorted #{items.sort_by(&:name).each_slice(1000).map { |slice| slice.first.name }.first(5)}"
GC.start
packed = Zlib::Deflate.deflate(items.map(&:name).join(","))
puts "zlib #{Digest::SHA256.hexdigest(Zlib::Inflate.inflate(packed))}"
puts "big #{(1..2500).inject(:*).to_s.size} #{Set.new(words).size}"
child = fork { items.clear; GC.start; exit 3 }
Process.wait(child)
puts "child #{$?.exitstatus}"
RUBY
# work:
source "$SUPPORT"
ruby work.rb
