# needs: yosys
# debian: yosys
# about: Verilog to gates
# stresses: hash tables and strings: many blocks of one pass that are freed together
# not shown: threads: there is one
source "$SUPPORT"
cat >top.v <<'VERILOG'
module mix #(parameter N = 8) (input clk, input [N-1:0] a, input [N-1:0] b, output reg [2*N-1:0] p, output [N-1:0] q);
  reg [N-1:0] memory [0:15];
  always @(posedge clk) begin p <= a * b + {b, a}; memory[a[3:0]] <= b ^ p[N-1:0]; end
  assign q = memory[b[3:0]] + (a > b ? a - b : b - a);
endmodule
module top(input clk, input [63:0] x, output [127:0] y, output [63:0] z);
  genvar i;
  generate for (i = 0; i < 8; i = i + 1) begin : part
    mix #(.N(8)) m(.clk(clk), .a(x[8*i +: 8]), .b(x[8*((i+3)%8) +: 8]), .p(y[16*i +: 16]), .q(z[8*i +: 8]));
  end endgenerate
endmodule
VERILOG
# work:
source "$SUPPORT"
yosys -q -p 'read_verilog top.v; synth -flatten -top top; opt -full; stat; write_verilog -noattr out.v; write_json out.json' -t >log
sed -n '/Number of/p' log | sed 's/^\[[^]]*\] *//'
yosys -q -p 'read_verilog top.v; synth -flatten -top top; tee -o stat.txt stat' >/dev/null
cat stat.txt
grep -v '^/\*' out.v | sha256sum
grep -v creator out.json | sha256sum
