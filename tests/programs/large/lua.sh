# needs: lua5.4
# debian: lua5.4
# about: trees, tables, coroutines and strings in both modes of its collector
# stresses: one small block for each object, freed in sweeps of the collector
# not shown: threads; a build of Lua itself, as in mimalloc-bench
# Each string, table and closure is a separate malloc.
source "$SUPPORT"
cat >work.lua <<'LUA'
local x = 7
local function next_number(n) x = (x * 1103515245 + 12345) % 2147483648; return x % n end
local function tree(depth) if depth == 0 then return { next_number(100) } end return { tree(depth - 1), tree(depth - 1) } end
local function sum(t) if #t == 1 then return t[1] end return sum(t[1]) + sum(t[2]) end
for mode = 1, 2 do
    collectgarbage(mode == 1 and "incremental" or "generational")
    local total = 0
    for _ = 1, 12 do total = total + sum(tree(14)) end
    print("trees", total)
    local words = {}
    for i = 1, 300000 do
        words[next_number(20000)] = string.rep("ab", next_number(40)) .. i
        if i % 3 == 0 then words[next_number(20000)] = nil end
    end
    local keys = {}
    for k in pairs(words) do keys[#keys + 1] = k end
    table.sort(keys)
    local bytes = 0
    for _, k in ipairs(keys) do bytes = bytes + #words[k]:gsub("%d(%d)", "<%1>") end
    print("words", #keys, bytes)
    local makers = {}
    for i = 1, 3000 do makers[i] = coroutine.wrap(function() for j = 1, 5 do coroutine.yield(i * j) end end) end
    local got = 0
    for _ = 1, 5 do for i = 1, 3000 do got = got + makers[i]() end end
    print("coroutines", got)
    local parts = {}
    for i = 1, 100000 do parts[#parts + 1] = ("%d:%s"):format(i, ("x"):rep(i % 17)) end
    local text = table.concat(parts, ",")
    local count = 0
    for _ in text:gmatch("%d+:x*") do count = count + 1 end
    print("text", #text, count)
end
LUA
# work:
source "$SUPPORT"
lua5.4 work.lua
