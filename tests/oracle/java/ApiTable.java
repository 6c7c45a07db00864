import java.lang.reflect.Method;
import java.util.Arrays;
import org.apache.kafka.common.protocol.ApiKeys;

/** Prints the APIs that a broker of the Kafka on the class path tells its clients: key, first and last version; Kafka 0.11 and later. */
public class ApiTable {
    public static void main(String[] arguments) throws Exception {
        boolean zooKeeper = arguments[0].equals("zookeeper");
        for (ApiKeys api : ApiKeys.values()) {
            if (!isServed(api, zooKeeper)) {
                continue;
            }
            short[] range = range(api);
            if (range != null) {
                System.out.println(api.id + "\t" + range[0] + "\t" + range[1]);
            }
        }
    }

    private static boolean isServed(ApiKeys api, boolean zooKeeper) throws Exception {
        Method inScope = method("inScope");
        if (inScope == null) {
            return true; // before there were listener types, a broker served all
        }
        Class<?> listener = inScope.getParameterTypes()[0];
        Object wanted = Arrays.stream(listener.getEnumConstants())
            .filter(each -> each.toString().equals(zooKeeper ? "ZK_BROKER" : "BROKER")
                || ((Enum<?>) each).name().equals(zooKeeper ? "ZK_BROKER" : "BROKER"))
            .findFirst().get();
        return (Boolean) inScope.invoke(api, wanted);
    }

    private static short[] range(ApiKeys api) throws Exception {
        Method told = method("toApiVersion");
        if (told == null) {
            return new short[] {api.oldestVersion(), api.latestVersion()};
        }
        Object[] flags = new Object[told.getParameterCount()];
        for (int index = 0; index < flags.length; index++) {
            flags[index] = told.getParameterTypes()[index] == boolean.class ? (Object) false : java.util.Optional.empty();
        }
        Object version = told.invoke(api, flags);
        if (version instanceof java.util.Optional) {
            java.util.Optional<?> found = (java.util.Optional<?>) version;
            if (!found.isPresent()) {
                return null;
            }
            version = found.get();
        }
        return new short[] {
            (Short) version.getClass().getMethod("minVersion").invoke(version),
            (Short) version.getClass().getMethod("maxVersion").invoke(version)};
    }

    private static Method method(String name) {
        return Arrays.stream(ApiKeys.class.getMethods()).filter(each -> each.getName().equals(name))
            .min((one, other) -> Integer.compare(one.getParameterCount(), other.getParameterCount())).orElse(null);
    }
}
