# needs: verilator
# debian: verilator
# about: Verilog of 40 modules to C++
# stresses: very many small nodes of a tree that is rewritten
# not shown: threads: there are none
source "$SUPPORT"
awk 'BEGIN { for (m = 0; m < 40; m++) { printf "module m%d(input clk, input [31:0] a, output reg [31:0] b);\n reg [31:0] s [0:7]; integer i;\n always @(posedge clk) begin\n", m
    for (i = 0; i < 60; i++) printf "  s[%d] <= (s[%d] ^ (a << %d)) + s[%d] * 32%cd%d;\n", i % 8, (i + 3) % 8, i % 31, (i * 5) % 8, 39, i * m + 1
    print "  b <= s[0] ^ s[5];\n end\nendmodule" }
    print "module top(input clk, input [31:0] a, output [31:0] b);"
    for (m = 0; m <= 40; m++) printf " wire [31:0] w%d;\n", m
    print " assign w0 = a; assign b = w40;"
    for (m = 0; m < 40; m++) printf " m%d u%d(.clk(clk), .a(w%d), .b(w%d));\n", m, m, m, m + 1
    print "endmodule" }' >top.v
# work:
source "$SUPPORT"
verilator --cc -O3 -Wno-fatal -Wno-lint --stats top.v
cat obj_dir/*.cpp obj_dir/*.h | sha256sum
verilator --xml-only -Wno-lint --xml-output out.xml top.v
sha256sum <out.xml
verilator --lint-only -Wall top.v 2>&1 | grep -c Warning || true
