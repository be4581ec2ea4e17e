package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	meshclient "github.com/tickmesh/tickmesh/api/client"
)

// sendTime bounds one batch; it is longer than a router tries.
const sendTime = 15 * time.Second

// batchesOfConnection is how many batches go over one connection of several clients. Clients come and go, so that some
// lead to each Envoy again soon after one was lost, or restarted. One that is alone keeps its connection until it breaks.
const batchesOfConnection = 25

// tcpSender sends lines over a connection, and after each batch a word that is
// answered: the answer comes after everything before it was written.
type tcpSender struct {
	dial   func(ctx context.Context) (net.Conn, error)
	line   func(n int) string
	word   string // that asks for the answer
	answer string // how its first line begins
	more   int    // lines of the answer after that
	most   int    // batches over one connection; 0: until it breaks
	conn   net.Conn
	reader *bufio.Reader
	sent   int // batches over the connection
}

// newPutSender writes by OpenTSDB's telnet protocol, whose command version is answered.
func newPutSender(metric string, most int, dial func(ctx context.Context) (net.Conn, error)) *tcpSender {
	return &tcpSender{
		dial: dial, most: most, word: "version", answer: "tickmesh ", more: 1,
		line: func(n int) string { return fmt.Sprintf("put %s %d %d journal=put\n", metric, journalStart+n, n) },
	}
}

// newLineSender writes line protocol, which has no commands: what is answered is a line
// that is none.
func newLineSender(metric string, most int, dial func(ctx context.Context) (net.Conn, error)) *tcpSender {
	return &tcpSender{
		dial: dial, most: most, word: "version", answer: "unable to parse 'version'",
		line: func(n int) string { return fmt.Sprintf("%s,journal=line value=%d %d\n", metric, n, journalStart+n) },
	}
}

func (s *tcpSender) send(ctx context.Context, first, count int) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	err := s.exchange(ctx, first, count)
	if s.sent++; err != nil || s.sent == s.most {
		s.close() // what it still says after an error is not known
	}
	return err
}

func (s *tcpSender) exchange(ctx context.Context, first, count int) error {
	if s.conn == nil {
		conn, err := s.dial(ctx)
		if err != nil {
			return err
		}
		s.conn, s.reader, s.sent = conn, bufio.NewReader(conn), 0
	}
	deadline, _ := ctx.Deadline()
	if err := s.conn.SetDeadline(deadline); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Now()) })()
	var text strings.Builder
	for n := first; n < first+count; n++ {
		text.WriteString(s.line(n))
	}
	if _, err := s.conn.Write([]byte(text.String() + s.word + "\n")); err != nil {
		return err
	}
	for i := 0; i <= s.more; i++ {
		line, err := s.reader.ReadString('\n')
		if err != nil {
			return err
		}
		if i == 0 && !strings.HasPrefix(line, s.answer) {
			return fmt.Errorf("answered by %q", line)
		}
	}
	return nil
}

func (s *tcpSender) close() {
	if s.conn != nil {
		_ = s.conn.Close() // nothing is waited for
		s.conn = nil
	}
}

// httpSender writes OpenTSDB's JSON by HTTP, over a connection that is kept until it breaks.
type httpSender struct {
	client *http.Client
	metric string
	url    func() string
}

func newHTTPSender(metric string, url func() string) *httpSender {
	return &httpSender{&http.Client{Timeout: sendTime, Transport: &http.Transport{DialContext: dial}}, metric, url}
}

func (s *httpSender) send(ctx context.Context, first, count int) error {
	type point struct {
		Metric    string            `json:"metric"`
		Timestamp int               `json:"timestamp"`
		Value     int               `json:"value"`
		Tags      map[string]string `json:"tags"`
	}
	points := make([]point, count)
	for i := range points {
		points[i] = point{s.metric, journalStart + first + i, first + i, map[string]string{"journal": "http"}}
	}
	body, err := json.Marshal(points)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // to its end, so that the connection is kept
	if err == nil && response.StatusCode != http.StatusNoContent {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}

func (s *httpSender) close() { s.client.CloseIdleConnections() }

// clientSender writes with the SDK, by gRPC.
type clientSender struct {
	client *meshclient.Client
	series *meshclient.Series
}

func newClientSender(metric string, options meshclient.Options) (*clientSender, error) {
	series, err := meshclient.NewSeries(metric, meshclient.Tag{Name: "journal", Value: "grpc"})
	if err != nil {
		return nil, err
	}
	c, err := meshclient.New(options)
	return &clientSender{c, series}, err
}

func (s *clientSender) send(ctx context.Context, first, count int) error {
	samples := make([]meshclient.Sample, count)
	for i := range samples {
		n := first + i
		samples[i] = meshclient.Sample{Series: s.series, TimeMs: int64(journalStart+n) * 1000, Value: float64(n)}
	}
	return s.client.Write(ctx, samples...)
}

func (s *clientSender) close() { _ = s.client.Close() } // all that was sent is answered
