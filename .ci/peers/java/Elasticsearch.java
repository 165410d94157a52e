import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.http.HttpServerTransport;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.transport.Netty4Plugin;

/**
 * One node of Elasticsearch, for tests: it keeps its data in the directory that
 * is its argument, prints the port that it listens on, and ends with its input.
 */
public class Elasticsearch {
    static class Alone extends Node {
        Alone(Settings settings) {
            super(InternalSettingsPreparer.prepareEnvironment(settings, null), List.of(Netty4Plugin.class), true);
        }

        @Override
        protected void registerDerivedNodeNameWithLogger(String name) {}
    }

    public static void main(String[] args) throws Exception {
        Path home = Path.of(args[0]);
        Files.createDirectories(home.resolve("config"));
        Settings settings = Settings.builder()
            .put("path.home", home.toString())
            .put("cluster.name", "openwhisk")
            .put("node.name", "test")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", "0")
            .put("transport.tcp.port", "0")
            .put("http.type", "netty4")
            .put("transport.type", "netty4")
            .put("processors", 1)
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
        try (Node node = new Alone(settings).start()) {
            HttpServerTransport http = node.injector().getInstance(HttpServerTransport.class);
            System.out.println("port " + http.boundAddress().publishAddress().getPort());
            System.out.flush();
            while (System.in.read() >= 0) {}
        }
        System.exit(0);
    }
}
