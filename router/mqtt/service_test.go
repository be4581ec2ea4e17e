package mqtt

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	broker "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"

	"github.com/tickmesh/tickmesh/router/ingest"
)

const memoryBytes = 64 << 20

// fileOf is a file of one connection with the id "c".
func fileOf(address, more, subscriptions string) string {
	return fmt.Sprintf("connections:\n  home:\n    urls: [\"mqtt://%s\"]\n    client-id: c\n%s    subscriptions:\n%s", address, more, subscriptions)
}

const timedJSON = "      - {topic: \"sensors/{room}/{metric}\", database: home, time: ts, time-unit: s}\n"

// Each format goes from a real broker to storage, and is acknowledged.
func TestFormats(t *testing.T) {
	b := startBroker(t, "", nil)
	l := startLab(t, fileOf(addressOf(t, b), "", `      - topic: sensors/{room}/climate
        database: home
        metric: climate_{field}
        tags: {site: attic}
        time: ts
        time-unit: ms
        json-tags: {device: dev.id}
      - topic: plain/{room}/{metric#}
        format: value
      - topic: lines/{gateway}/+
        format: line
        time-unit: s
        database: lines
`), nil, memoryBytes)
	l.waitConnected(t)
	publish(t, b, "sensors/den/climate", `{"ts":1700000000123,"dev":{"id":"d1","battery":3.1},"temp":21.5,"ok":true,"name":"x"}`)
	publish(t, b, "sensors/den/climate", `[{"ts":1700000001000,"temp":1},{"ts":1700000002000,"temp":2}]`)
	publish(t, b, "plain/den/power/total", " 12.25\n")
	publish(t, b, "lines/g1/x", "cpu,host=a usage=0.5,value=2i 1700000000\nmem,gateway=own free=1 1700000001")
	want := []string{
		"home climate_dev_battery{device=d1,room=den,site=attic} 3.1 @1700000000123",
		"home climate_ok{device=d1,room=den,site=attic} 1 @1700000000123",
		"home climate_temp{device=d1,room=den,site=attic} 21.5 @1700000000123",
		"home climate_temp{room=den,site=attic} 1 @1700000001000",
		"home climate_temp{room=den,site=attic} 2 @1700000002000",
		"lines cpu{_field=usage,gateway=g1,host=a} 0.5 @1700000000000",
		"lines cpu{gateway=g1,host=a} 2 @1700000000000",
		"lines mem{_field=free,gateway=own} 1 @1700000001000",
	}
	waitFor(t, "all samples", func() bool { return len(l.stored()) == len(want)+1 })
	all := l.stored()
	plain := all[0]
	if before, _, _ := strings.Cut(plain, " @"); before != " power_total{room=den} 12.25" {
		t.Errorf("%q", plain)
	}
	if !slices.Equal(all[1:], want) {
		t.Errorf("stored\n%s\nwant\n%s", strings.Join(all[1:], "\n"), strings.Join(want, "\n"))
	}
	waitFor(t, "acknowledged", func() bool { return unacknowledged(b, "c") == 0 })
	if taken, written := l.metric(t, "messages_total", "taken"), l.metric(t, "samples_total", "written"); taken != 4 || written != 9 {
		t.Errorf("%v messages, %v samples", taken, written)
	}
}

// A write that another try cures is tried again; until then the broker keeps the messages. What comes after a restart is
// tested with Mosquitto (e2e/realinput), as this broker forgets messages beyond the receive maximum.
func TestAcknowledgedAfterTheWrite(t *testing.T) {
	b := startBroker(t, "", nil)
	to := &storage{samples: map[string]int{}}
	var away atomic.Bool
	away.Store(true)
	to.setHook(func(context.Context, string) error {
		if away.Load() {
			return errOutage
		}
		return nil
	})
	l := startLab(t, fileOf(addressOf(t, b), "    receive-maximum: 300\n", timedJSON), to, memoryBytes)
	l.waitConnected(t)
	if c, ok := b.Clients.Get("c"); !ok || c.Properties.Props.ReceiveMaximum != 300 || c.Properties.Props.MaximumPacketSize != packetDefault {
		t.Errorf("the broker was told %+v", c.Properties.Props)
	}
	const messages = 50
	for i := range messages {
		publish(t, b, "sensors/den/power", fmt.Sprintf(`{"ts":%d,"w":%d}`, 1_700_000_000+i, i))
	}
	waitFor(t, "tried again", func() bool { return l.metric(t, "write_retries_total", "") >= 3 })
	if n := unacknowledged(b, "c"); n != messages {
		t.Errorf("the broker keeps %d", n)
	}
	waitFor(t, "all in flight", func() bool { return l.metric(t, "in_flight_messages", "") == messages })
	if lag := l.metric(t, "lag_seconds", ""); lag <= 0 {
		t.Errorf("lag %v", lag)
	}
	away.Store(false)
	waitFor(t, "all written", func() bool { return len(l.stored()) == messages })
	waitFor(t, "acknowledged", func() bool { return unacknowledged(b, "c") == 0 && l.metric(t, "in_flight_messages", "") == 0 })
	for sample, n := range l.untimed() {
		if n != 1 {
			t.Errorf("%s came %d times", sample, n)
		}
	}
	if used := l.memory.Stats().Used; used != 0 {
		t.Errorf("%d bytes are held", used)
	}
}

// What is not understood is told, counted, and acknowledged; what comes behind it is written.
func TestRefused(t *testing.T) {
	b := startBroker(t, "", nil)
	to := &storage{samples: map[string]int{}}
	to.setHook(func(_ context.Context, database string) error {
		if database == "full" {
			return &ingest.RefusedError{Refused: 1, Of: 1, First: 1, Text: "no room for new series"}
		}
		return nil
	})
	l := startLab(t, fileOf(addressOf(t, b), "", timedJSON+"      - {topic: \"full/{metric}\", format: value, database: full}\n"), to, memoryBytes)
	l.waitConnected(t)
	for _, payload := range []string{"", "21", "{", `{"ts":1}`, `{"ts":"x","a":1}`, `{"a":1}`, `{"ts":1,"a":1} {}`, strings.Repeat("[", 100), `{"ts":1e30,"a":1}`} {
		publish(t, b, "sensors/den/power", payload)
	}
	publish(t, b, "full/a", "1")
	publish(t, b, "sensors/den/power", `{"ts":1700000000,"w":1}`)
	waitFor(t, "the good one", func() bool { return len(l.stored()) == 1 })
	waitFor(t, "acknowledged", func() bool { return unacknowledged(b, "c") == 0 })
	for reason, want := range map[string]float64{"payload": 5, "empty": 1, "time": 3} {
		if got := l.metric(t, "refused_messages_total", reason); got != want {
			t.Errorf("%s: %v, want %v", reason, got, want)
		}
	}
	if n := l.metric(t, "samples_total", "refused"); n != 1 {
		t.Errorf("%v samples refused", n)
	}
	if log := l.log.String(); !strings.Contains(log, "topic=sensors/den/power") || !strings.Contains(log, "publish JSON, or say another format") {
		t.Errorf("log:\n%s", log)
	}
}

// A broker that goes away and comes back is found again, and at another URL, too.
func TestBrokerGoesAway(t *testing.T) {
	b := startBroker(t, "", nil)
	address := addressOf(t, b)
	l := startLab(t, fileOf(address, "", timedJSON), nil, memoryBytes)
	l.waitConnected(t)
	b.close()
	waitFor(t, "gone", func() bool { return l.metric(t, "disconnects_total", "") == 1 && l.metric(t, "connected", "") == 0 })
	b = startBroker(t, address, nil)
	l.waitConnected(t)
	publish(t, b, "sensors/den/power", `{"ts":1,"w":1}`)
	waitFor(t, "written", func() bool { return len(l.stored()) == 1 })
}

// Servers that share subscriptions write each message once.
func TestShared(t *testing.T) {
	b := startBroker(t, "", nil)
	to := &storage{samples: map[string]int{}}
	file := fileOf(addressOf(t, b), "    share: g\n", timedJSON)
	one := startLab(t, file, to, memoryBytes)
	two := startLab(t, strings.Replace(file, "client-id: c", "client-id: d", 1), to, memoryBytes)
	one.waitConnected(t)
	two.waitConnected(t)
	const messages = 200
	for i := range messages {
		publish(t, b, "sensors/den/power", fmt.Sprintf(`{"ts":%d,"w":%d}`, 1_700_000_000+i, i))
	}
	waitFor(t, "all", func() bool { return len(to.stored()) == messages })
	waitFor(t, "acknowledged", func() bool { return unacknowledged(b, "c")+unacknowledged(b, "d") == 0 })
	a, c := one.metric(t, "messages_total", "taken"), two.metric(t, "messages_total", "taken")
	if a == 0 || c == 0 || a+c != messages {
		t.Errorf("%v and %v messages", a, c)
	}
}

// What a broker has kept is old news, unless it is asked for.
func TestRetained(t *testing.T) {
	b := startBroker(t, "", nil)
	for _, topic := range []string{"old/a", "kept/a"} {
		if err := b.Publish(topic, []byte("1"), true, 1); err != nil {
			t.Fatal(err)
		}
	}
	l := startLab(t, fileOf(addressOf(t, b), "", "      - {topic: \"old/{metric}\", format: value}\n      - {topic: \"kept/{metric}\", format: value, metric: \"kept_{metric}\", retained: true}\n"), nil, memoryBytes)
	l.waitConnected(t)
	publish(t, b, "old/b", "2")
	waitFor(t, "two samples", func() bool { return len(l.stored()) == 2 })
	if got := l.untimed(); got[" kept_a{} 1"] != 1 || got[" b{} 2"] != 1 {
		t.Errorf("%v", got)
	}
}

// A file that changes takes effect: subscriptions that it has no more end, and so does the session of a connection.
func TestFileChanges(t *testing.T) {
	b := startBroker(t, "", nil)
	address := addressOf(t, b)
	one := func(topic string) string {
		return fileOf(address, "", "      - {topic: \""+topic+"/{metric}\", format: value}\n")
	}
	l := startLab(t, one("a"), nil, memoryBytes)
	l.waitConnected(t)
	l.write(t, one("b"))
	subscribed := func(filter string) bool {
		c, ok := b.Clients.Get("c")
		return ok && slices.Contains(slices.Collect(mapsKeys(c)), filter)
	}
	waitFor(t, "the new topic alone", func() bool { return subscribed("b/+") && !subscribed("a/+") })
	l.waitConnected(t)
	publish(t, b, "a/x", "1")
	publish(t, b, "b/x", "2")
	waitFor(t, "written", func() bool { return len(l.stored()) == 1 })
	l.write(t, "connections: [1]\n")
	waitFor(t, "refused", func() bool { return strings.Contains(l.log.String(), "is not usable") })
	l.write(t, "connections: {}\n")
	waitFor(t, "the session is gone", func() bool { _, ok := b.Clients.Get("c"); return !ok })
	waitFor(t, "the connection is known to be gone", func() bool { return l.metric(t, "connected", "") == 0 })
}

// Another user, or another way to the same broker, is no reason to have it forget what is not written yet.
func TestFileChangesKeepTheSession(t *testing.T) {
	b := startBroker(t, "", nil)
	to := &storage{samples: map[string]int{}}
	var away atomic.Bool
	away.Store(true)
	to.setHook(func(context.Context, string) error {
		if away.Load() {
			return errOutage
		}
		return nil
	})
	file := fileOf(addressOf(t, b), "", timedJSON)
	l := startLab(t, file, to, memoryBytes)
	l.waitConnected(t)
	publish(t, b, "sensors/den/power", `{"ts":1700000000,"w":1}`)
	waitFor(t, "tried", func() bool { return l.metric(t, "write_retries_total", "") > 0 })
	l.write(t, strings.NewReplacer("[\"", "[\"mqtt://127.0.0.1:1\", \"", "    client-id", "    user: another\n    client-id").Replace(file))
	waitFor(t, "connected anew", func() bool { return l.metric(t, "connects_total", "") == 2 })
	away.Store(false)
	waitFor(t, "written", func() bool { return len(l.stored()) == 1 })
}

func mapsKeys(c *broker.Client) func(func(string) bool) {
	return func(yield func(string) bool) {
		for filter := range c.State.Subscriptions.GetAll() {
			if !yield(filter) {
				return
			}
		}
	}
}

// Where there is no memory, messages with QoS 1 come again, and those with QoS 0 are dropped and counted.
func TestNoMemory(t *testing.T) {
	b := startBroker(t, "", nil)
	to := &storage{samples: map[string]int{}}
	release := make(chan struct{})
	to.setHook(func(context.Context, string) error { <-release; return nil })
	l := startLab(t, fileOf(addressOf(t, b), "", timedJSON+"      - {topic: \"loose/{metric}\", format: value, qos: 0}\n"), to, 16<<10)
	l.waitConnected(t)
	for i := range 40 {
		publish(t, b, "sensors/den/power", fmt.Sprintf(`{"ts":%d,"w":%d}`, 1_700_000_000+i, i))
		publish(t, b, "loose/a", "1")
	}
	waitFor(t, "dropped", func() bool { return l.metric(t, "messages_total", "dropped") > 0 })
	close(release)
	waitFor(t, "all of QoS 1", func() bool {
		n := 0
		for _, sample := range l.stored() {
			if strings.HasPrefix(sample, "home ") {
				n++
			}
		}
		return n == 40
	})
	waitFor(t, "acknowledged", func() bool { return unacknowledged(b, "c") == 0 })
}

// Passwords are read from a file, and a broker that does not let in is told about with what helps.
func TestSignIn(t *testing.T) {
	rules := &auth.Options{Ledger: &auth.Ledger{
		Auth: auth.AuthRules{{Username: "tick", Password: "secret", Allow: true}},
		ACL:  auth.ACLRules{{Username: "tick", Filters: auth.Filters{"secret/#": auth.Deny, "sensors/#": auth.ReadOnly}}},
	}}
	b := startBroker(t, "", nil, func(s *broker.Server) error { return s.AddHook(&auth.Hook{}, rules) })
	dir := t.TempDir()
	password := dir + "/password"
	writeText(t, password, "wrong\n")
	signIn := "    user: tick\n    password-file: " + password + "\n"
	l := startLab(t, fileOf(addressOf(t, b), signIn, timedJSON+"      - {topic: \"secret/{metric}\", format: value}\n"), nil, memoryBytes)
	waitFor(t, "told", func() bool { return strings.Contains(l.log.String(), "check user and password-file") })
	writeText(t, password, "secret\n")
	l.waitConnected(t)
	if n := l.metric(t, "subscriptions_refused", ""); n != 1 || !strings.Contains(l.log.String(), "let its access list say so") {
		t.Errorf("%v subscriptions are refused; log:\n%s", n, l.log.String())
	}
	if strings.Contains(l.log.String(), "secret\n") {
		t.Error("the log has the password")
	}
	if err := b.Publish("sensors/den/power", []byte(`{"ts":1,"w":1}`), false, 1); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "written", func() bool { return len(l.stored()) == 1 })
}

// A service that is told to stop does so, whatever the broker and storage do.
func TestStops(t *testing.T) {
	b := startBroker(t, "", nil)
	to := &storage{samples: map[string]int{}}
	to.setHook(func(ctx context.Context, _ string) error { return errOutage })
	l := startLab(t, fileOf(addressOf(t, b), "", timedJSON), to, memoryBytes)
	l.waitConnected(t)
	publish(t, b, "sensors/den/power", `{"ts":1,"w":1}`)
	waitFor(t, "tried", func() bool { return l.metric(t, "write_retries_total", "") > 0 })
	ended := make(chan struct{})
	go func() { l.stop(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it does not stop")
	}
}
