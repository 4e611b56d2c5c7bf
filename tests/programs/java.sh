# optional: java javac
# debian: default-jdk-headless
# about: javac, then threads, zip and direct buffers in a virtual machine
# stresses: the virtual machine's own data, in several threads
# not shown: Java's objects: they are in the virtual machine's heap
source "$SUPPORT"
cat >Work.java <<'JAVA'
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;

public class Work {
    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> sums = new ArrayList<>();
        for (int t = 0; t < 8; t++) {
            final int seed = t;
            sums.add(pool.submit(() -> {
                Random random = new Random(seed);
                byte[] data = new byte[200_000];
                CRC32 crc = new CRC32();
                for (int i = 0; i < 20; i++) {
                    random.nextBytes(data);
                    Deflater deflater = new Deflater();
                    deflater.setInput(data);
                    deflater.finish();
                    byte[] out = new byte[300_000];
                    crc.update(out, 0, deflater.deflate(out));
                    deflater.end();
                    java.nio.ByteBuffer.allocateDirect(random.nextInt(500_000) + 1).put(0, (byte) 1);
                }
                return crc.getValue();
            }));
        }
        for (Future<Long> sum : sums) System.out.println(sum.get());
        pool.shutdown();
        TreeMap<String, Integer> map = new TreeMap<>();
        for (int i = 0; i < 300_000; i++) map.merge("key" + i % 7001, i, Integer::sum);
        System.out.println(map.hashCode());
    }
}
JAVA
# work:
source "$SUPPORT"
javac Work.java
java -Xmx256m Work
