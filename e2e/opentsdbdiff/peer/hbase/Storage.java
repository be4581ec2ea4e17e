import java.io.File;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HColumnDescriptor;
import org.apache.hadoop.hbase.HTableDescriptor;
import org.apache.hadoop.hbase.LocalHBaseCluster;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.zookeeper.MiniZooKeeperCluster;

/**
 * An HBase of one process on the loopback interface: ZooKeeper, a master and a region server over
 * a folder, with the tables of OpenTSDB.
 */
public final class Storage {
  /** Table, then its column families, as OpenTSDB's create_table.sh makes them. */
  private static final String[][] TABLES = {
    {"tsdb", "t"}, {"tsdb-uid", "id", "name"}, {"tsdb-tree", "t"}, {"tsdb-meta", "name"}
  };

  private Storage() {}

  /**
   * Starts it over the folder of the first argument. Once it serves, ZooKeeper's port is the
   * content of the file that the second argument names.
   */
  public static void main(String[] arguments) throws Exception {
    File folder = new File(arguments[0]);
    Configuration configuration = HBaseConfiguration.create();
    configuration.set("hbase.rootdir", new File(folder, "hbase").toURI().toString());
    configuration.set("hbase.tmp.dir", new File(folder, "tmp").toString());
    String loopback = InetAddress.getLoopbackAddress().getHostAddress();
    configuration.set("hbase.zookeeper.quorum", loopback);
    for (String role : new String[] {"master", "regionserver"}) {
      configuration.setInt("hbase." + role + ".port", 0);
      configuration.setInt("hbase." + role + ".info.port", -1);
      configuration.set("hbase." + role + ".ipc.address", loopback);
      configuration.set("hbase." + role + ".hostname", "localhost");
    }
    MiniZooKeeperCluster zookeeper = new MiniZooKeeperCluster(configuration);
    int port = zookeeper.startup(new File(folder, "zookeeper"));
    configuration.setInt("hbase.zookeeper.property.clientPort", port);
    LocalHBaseCluster cluster = new LocalHBaseCluster(configuration, 1, 1);
    cluster.startup();
    try (Connection connection = ConnectionFactory.createConnection(configuration);
        Admin admin = connection.getAdmin()) {
      for (String[] names : TABLES) {
        HTableDescriptor table = new HTableDescriptor(TableName.valueOf(names[0]));
        for (int i = 1; i < names.length; i++) {
          table.addFamily(new HColumnDescriptor(names[i]));
        }
        admin.createTable(table);
      }
    }
    Path ready = Path.of(arguments[1]);
    Path written = Path.of(arguments[1] + ".tmp");
    Files.writeString(written, Integer.toString(port));
    Files.move(written, ready, StandardCopyOption.ATOMIC_MOVE);
    cluster.join();
  }
}
