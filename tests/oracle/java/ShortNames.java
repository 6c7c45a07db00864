import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

/** ShortNames REALM COUNT NAME... RULES...: print, for each list of rules, "refused", or the short names with tabs, "-" for none. */
public class ShortNames {
    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[1]);
        List<String> names = Arrays.asList(arguments).subList(2, 2 + count);
        var out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String rules : Arrays.asList(arguments).subList(2 + count, arguments.length)) {
            try {
                var namer = KerberosShortNamer.fromUnparsedRules(arguments[0], Arrays.asList(rules.split(",", -1)));
                out.println(String.join("\t", names.stream().map(name -> shortened(namer, name)).toList()));
            } catch (IllegalArgumentException error) {
                out.println("refused");
            }
        }
    }

    static String shortened(KerberosShortNamer namer, String name) {
        try {
            return "=" + namer.shortName(KerberosName.parse(name));
        } catch (Exception error) {
            return "-";
        }
    }
}
