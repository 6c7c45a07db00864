import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/** Runs one of Kafka's command-line tools for each line of its input: class and arguments, with tabs between. One JVM for all. */
public class Tools {
    private static final class Ended extends RuntimeException {
        final int status;

        Ended(int status) {
            this.status = status;
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        Exit.setExitProcedure((status, message) -> { throw new Ended(status); });
        Exit.setHaltProcedure((status, message) -> { throw new Ended(status); });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(said, true);
            System.setOut(both);
            System.setErr(both);
            int status = run(words, both);
            byte[] bytes = said.toByteArray();
            out.println(status + " " + bytes.length);
            out.write(bytes);
            out.flush();
        }
    }

    private static int run(String[] words, PrintStream out) throws Exception {
        Object arguments = Arrays.copyOfRange(words, 1, words.length);
        try {
            // Scala's tools print to a stream of their own, taken from System.out when they are first used.
            scala.Console.withOut(out, () -> {
                try {
                    return Class.forName(words[0]).getMethod("main", String[].class).invoke(null, arguments);
                } catch (InvocationTargetException error) {
                    throw error.getCause() instanceof RuntimeException cause ? cause : new RuntimeException(error.getCause());
                } catch (ReflectiveOperationException error) {
                    throw new RuntimeException(error);
                }
            });
            return 0;
        } catch (Ended ended) {
            return ended.status;
        } catch (Throwable error) {
            out.println(error);
            return 1;
        }
    }
}
