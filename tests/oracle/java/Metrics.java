import com.sun.tools.attach.VirtualMachine;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Prints the metrics of a running broker whose names match a pattern, for each line of its input: the pattern, a tab, an attribute.
 * A line for each that has the attribute: its name, a tab, its value; then an empty line. Its argument is the broker's process id.
 */
public class Metrics {
    public static void main(String[] args) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(args[0]);
        String address = machine.startLocalManagementAgent();
        machine.detach();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split("\t");
                StringBuilder text = new StringBuilder();
                for (ObjectName name : server.queryNames(new ObjectName(words[0]), null)) {
                    try {
                        text.append(name).append('\t').append(server.getAttribute(name, words[1])).append('\n');
                    } catch (javax.management.AttributeNotFoundException | javax.management.InstanceNotFoundException error) {
                        continue;
                    }
                }
                System.out.println(text);
                System.out.flush();
            }
        }
    }
}
