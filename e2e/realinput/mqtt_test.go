package realinput

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/harness/harnesstest"
)

// mosquittoConfig keeps sessions over restarts, and as many messages as come.
const mosquittoConfig = `listener %[1]s %[2]s
allow_anonymous true
persistence true
persistence_location %[3]s/
user root
max_queued_messages 0
`

const mqttFile = `connections:
  home:
    urls: ["mqtt://%s"]
    client-id: tickmesh
    receive-maximum: 10
    subscriptions:
      - topic: sensors/{room}/{metric}
        metric: mqtt_{metric}
        fields: {v: v}
        time: at.ms
        time-unit: ms
`

// Messages with QoS 1 that a real broker has taken are all there, with equal values, whatever ends meanwhile: the server, by
// SIGKILL and by SIGTERM, and the broker.
func TestMosquitto(t *testing.T) {
	const rooms, each, firstMs = 3, 500, 1_700_000_000_000
	if testing.Short() {
		t.Skip("-short: this test builds the server and installs a broker")
	}
	program, err := harness.Install(t.Context(), "mosquitto", "mosquitto")
	if err != nil {
		t.Fatal(err)
	}
	b := startMosquitto(t, program)
	file := filepath.Join(t.TempDir(), "mqtt.yaml")
	writeFile(t, file, fmt.Sprintf(mqttFile, b.address))
	addresses, err := harness.NewStandaloneAddresses()
	if err != nil {
		t.Fatal(err)
	}
	options := harness.StandaloneOptions{Binary: harnesstest.Build(t), DataDir: filepath.Join(t.TempDir(), "data"), Extra: []string{"--mqtt-file", file}}
	start := func() *harness.Standalone {
		server, err := harness.StartStandalone(t.Context(), options, addresses)
		if err != nil {
			t.Fatal(err)
		}
		return server
	}
	server := start()
	defer func() { server.Kill() }()
	connected := func() {
		eventually(t, time.Minute, func() string {
			if v, err := metric(t, server, `tickmesh_mqtt_connected{connection="home"}`); v != 1 {
				return fmt.Sprintf("not connected: %v %v\n%s\n%s", v, err, server.LogTail(4096), b.process.LogTail(2048))
			}
			return ""
		})
	}
	connected()

	want := map[string]samples{}
	sender := publisher{address: b.address}
	for i := range each {
		switch i {
		case each / 5:
			server.Kill()
			server = start()
		case 2 * each / 5:
			b.restart(t)
		case 3 * each / 5:
			if err := server.Terminate(time.Minute); err != nil {
				t.Fatal(err)
			}
		case 4 * each / 5:
			server = start()
		}
		for room := range rooms {
			at, v := int64(firstMs+i*1000), float64(i*rooms+room)/8
			name := "r" + strconv.Itoa(room)
			series := tagsText(map[string]string{"room": name})
			if want[series] == nil {
				want[series] = samples{}
			}
			want[series][at] = v
			sender.publish(t, "sensors/"+name+"/power", fmt.Sprintf(`{"at":{"ms":%d},"v":%v}`, at, v))
		}
	}
	eventually(t, time.Minute, func() string {
		got, err := stored(t.Context(), server, "mqtt_power", "room=*", firstMs, firstMs+each*1000)
		if err != nil {
			return err.Error()
		}
		for room := range want {
			if text := difference(want[room], got[room], 0); text != "" {
				return room + ": " + text + "\n" + server.LogTail(2048)
			}
		}
		return ""
	})
	if err := server.Terminate(time.Minute); err != nil {
		t.Errorf("%v\n%s", err, server.LogTail(4096))
	}
}

// mosquitto is a broker whose sessions survive restarts.
type mosquitto struct {
	program, config, dir, address string
	process                       *harness.Process
}

func startMosquitto(t *testing.T, program string) *mosquitto {
	t.Helper()
	free, err := harness.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	b := &mosquitto{program: program, dir: t.TempDir(), address: free[0]}
	host, port, err := net.SplitHostPort(b.address)
	if err != nil {
		t.Fatal(err)
	}
	b.config = filepath.Join(b.dir, "mosquitto.conf")
	writeFile(t, b.config, fmt.Sprintf(mosquittoConfig, port, host, b.dir))
	b.start(t)
	t.Cleanup(func() { b.process.Kill() })
	return b
}

func (b *mosquitto) start(t *testing.T) {
	t.Helper()
	var err error
	b.process, err = harness.StartProcess(harness.ProcessOptions{Path: b.program, Args: []string{"-c", b.config}, LogPath: filepath.Join(b.dir, "log")})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() string {
		conn, err := net.Dial("tcp", b.address)
		if err != nil {
			return fmt.Sprintf("%v\n%s", err, b.process.LogTail(2048))
		}
		conn.Close()
		return ""
	})
}

// restart ends the broker as its service manager does, so that it writes its sessions.
func (b *mosquitto) restart(t *testing.T) {
	t.Helper()
	if err := b.process.Terminate(time.Minute); err != nil && !b.process.KilledBy(syscall.SIGTERM) {
		t.Fatalf("%v\n%s", err, b.process.LogTail(2048))
	}
	b.start(t)
}

// publisher publishes with QoS 1, each message until the broker has acknowledged it.
type publisher struct {
	address string
	client  *paho.Client
}

func (p *publisher) publish(t *testing.T, topic, payload string) {
	t.Helper()
	eventually(t, time.Minute, func() string {
		if err := p.try(t.Context(), topic, payload); err != nil {
			p.client = nil
			return err.Error()
		}
		return ""
	})
}

func (p *publisher) try(ctx context.Context, topic, payload string) error {
	if p.client == nil {
		conn, err := net.Dial("tcp", p.address)
		if err != nil {
			return err
		}
		p.client = paho.NewClient(paho.ClientConfig{Conn: conn})
		if _, err := p.client.Connect(ctx, &paho.Connect{ClientID: "publisher", CleanStart: true, KeepAlive: 30}); err != nil {
			return err
		}
	}
	answer, err := p.client.Publish(ctx, &paho.Publish{Topic: topic, QoS: 1, Payload: []byte(payload)})
	if err == nil && answer.ReasonCode >= 0x80 {
		err = fmt.Errorf("the broker answers 0x%02x", answer.ReasonCode)
	}
	return err
}

var errNoMetric = errors.New("no such metric")

// metric returns the value of a line of /metrics.
func metric(t *testing.T, server *harness.Standalone, name string) (float64, error) {
	t.Helper()
	body, err := get(t.Context(), "http://"+server.HTTPAddr+"/metrics")
	if err != nil {
		return math.NaN(), err
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return math.NaN(), fmt.Errorf("%w: %s", errNoMetric, name)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
