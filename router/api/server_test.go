package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/transport"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	"github.com/tickmesh/tickmesh/router/api"
	"github.com/tickmesh/tickmesh/router/api/apitest"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitMax bounds what a test waits for; no result depends on it.
const waitMax = time.Minute

func dial(t *testing.T, o api.Options) (*grpc.ClientConn, *apitest.Server) {
	t.Helper()
	s, err := apitest.Start(o, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	conn, err := grpc.NewClient(s.Address, transport.DialOptions(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, s
}

func background(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	t.Cleanup(cancel)
	return ctx
}

func named(handle uint32, metric string) *tickmeshv1.SeriesHandle {
	return &tickmeshv1.SeriesHandle{Handle: handle, Series: &tickmeshv1.Series{Metric: []byte(metric)}}
}

// newest returns the newest value of each metric.
func newest(t *testing.T, s *apitest.Storage) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	err := s.Last(t.Context(), &scan.Selector{MetricAny: true}, scan.TimeMsMin, scan.Limits{}, func(p scan.Point) error {
		_, metric, _, err := p.Key.Parts(nil)
		values[string(metric)] = p.Value
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// TestWrongBatches sends what is wrong as a whole: the code, and the text that names
// the place.
func TestWrongBatches(t *testing.T) {
	storage := apitest.NewStorage(2)
	o := apitest.Options(storage)
	o.Limits = api.Limits{HandlesMax: 10, SessionKeysMax: 100}
	conn, _ := dial(t, o)
	service := tickmeshv1.NewWriteServiceClient(conn)
	one := []*tickmeshv1.SeriesHandle{named(3, "m")}
	for want, batch := range map[string]*tickmeshv1.Batch{
		"invalid request: columns of 2 handles, 1 times and 1 values": {Definitions: one, Handles: []uint32{3, 3}, TimeDeltasMs: []int64{1}, Values: []float64{1}},
		"invalid request: sample 1: handle 4 is not defined":          {Definitions: one, Handles: []uint32{3, 4}, TimeDeltasMs: []int64{1, 1}, Values: []float64{1, 1}},
		"invalid request: sample 0: handle 99 is not defined":         {Definitions: one, Handles: []uint32{99}, TimeDeltasMs: []int64{1}, Values: []float64{1}},
		"invalid request: sample 1, of m{}: its time is out of range": {
			Definitions: one, Handles: []uint32{3, 3}, TimeDeltasMs: []int64{math.MaxInt64 / 4, math.MaxInt64}, Values: []float64{1, 1},
		},
		"invalid request: batch id with session 5 and counter 0":         {BatchId: &tickmeshv1.BatchId{Session: 5}},
		"definition of handle 10: invalid request: handles are below 10": {Definitions: []*tickmeshv1.SeriesHandle{named(10, "m")}},
		"definition of handle 1: invalid request: the stream names series of more than 100 bytes; open another one": {
			Definitions: []*tickmeshv1.SeriesHandle{named(0, string(make([]byte, 50))), named(1, string(make([]byte, 60)))},
		},
	} {
		_, err := service.Write(background(t), &tickmeshv1.WriteRequest{Batch: batch})
		if status.Code(err) != codes.InvalidArgument || !errors.Is(wire.FromStatus(err), wire.ErrInvalid) || wire.FromStatus(err).Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if storage.Points() != 0 {
		t.Error("something was written")
	}
}

// TestWrongSeries leaves out what limits refuse, and writes the rest.
func TestWrongSeries(t *testing.T) {
	storage := apitest.NewStorage(2)
	o := apitest.Options(storage)
	o.Limits = api.Limits{KeyBytesMax: 20, TagsMax: 1}
	conn, _ := dial(t, o)
	tags := func(pairs ...string) *tickmeshv1.Series {
		s := &tickmeshv1.Series{Metric: []byte("m")}
		for i := 0; i < len(pairs); i += 2 {
			s.Tags = append(s.Tags, &tickmeshv1.Tag{Name: []byte(pairs[i]), Value: []byte(pairs[i+1])})
		}
		return s
	}
	wrong := []*tickmeshv1.Series{
		nil, {}, tags("a", ""), tags("", "a"), tags("a", "b", "c", "d"), tags("a", "longer than twenty bytes"), {Metric: make([]byte, 1<<16)},
	}
	batch := &tickmeshv1.Batch{Definitions: []*tickmeshv1.SeriesHandle{named(0, "good")}}
	for i, s := range wrong {
		batch.Definitions = append(batch.Definitions, &tickmeshv1.SeriesHandle{Handle: uint32(i + 1), Series: s})
	}
	for i := range 2 * (len(wrong) + 1) {
		batch.Handles = append(batch.Handles, uint32(i%(len(wrong)+1)))
		batch.TimeDeltasMs, batch.Values = append(batch.TimeDeltasMs, 1), append(batch.Values, float64(i))
	}
	response, err := tickmeshv1.NewWriteServiceClient(conn).Write(background(t), &tickmeshv1.WriteRequest{Batch: batch})
	if err != nil {
		t.Fatal(err)
	}
	refused := response.GetResult().GetRefused()
	if len(refused) != len(wrong) || storage.Points() != 2 || newest(t, storage)["good"] != 8 {
		t.Errorf("%d refused, %d points", len(refused), storage.Points())
	}
	for i, r := range refused {
		if r.GetHandle() != uint32(i+1) || !errors.Is(wire.ToError(r.GetError()), wire.ErrInvalid) {
			t.Errorf("%v", r)
		}
	}
}

// TestWriteErrors holds errors of storage to their codes.
func TestWriteErrors(t *testing.T) {
	storage := apitest.NewStorage(1)
	conn, _ := dial(t, apitest.Options(storage))
	service := tickmeshv1.NewWriteServiceClient(conn)
	for _, test := range []struct {
		err        error
		code       codes.Code
		kind       tickmeshv1.ErrorKind
		retryAfter bool
	}{
		{series.ErrUnavailable, codes.Unavailable, tickmeshv1.ErrorKind_ERROR_KIND_UNAVAILABLE, true},
		{&wire.NotLeaderError{Shard: 0, Leader: "x"}, codes.Unavailable, tickmeshv1.ErrorKind_ERROR_KIND_UNAVAILABLE, true},
		{series.ErrEra, codes.Unavailable, tickmeshv1.ErrorKind_ERROR_KIND_UNAVAILABLE, true},
		{errors.New("unknown"), codes.Unavailable, tickmeshv1.ErrorKind_ERROR_KIND_UNAVAILABLE, true},
		{fmt.Errorf("%w: full", series.ErrOverloaded), codes.ResourceExhausted, tickmeshv1.ErrorKind_ERROR_KIND_OVERLOADED, true},
		{series.ErrSeriesLimit, codes.ResourceExhausted, tickmeshv1.ErrorKind_ERROR_KIND_SERIES_LIMIT, false},
		{series.ErrSeriesRate, codes.ResourceExhausted, tickmeshv1.ErrorKind_ERROR_KIND_SERIES_RATE, true},
		{series.ErrReadOnly, codes.FailedPrecondition, tickmeshv1.ErrorKind_ERROR_KIND_READ_ONLY, false},
		{series.ErrBatchOld, codes.Aborted, tickmeshv1.ErrorKind_ERROR_KIND_BATCH_OLD, false},
		{context.DeadlineExceeded, codes.DeadlineExceeded, tickmeshv1.ErrorKind_ERROR_KIND_DEADLINE, false},
	} {
		storage.SetHook(func(*series.Frame, func() (series.Outcome, error)) (series.Outcome, error) {
			return series.Outcome{}, test.err
		})
		batch := &tickmeshv1.Batch{Definitions: []*tickmeshv1.SeriesHandle{named(0, "m")}, Handles: []uint32{0}, TimeDeltasMs: []int64{1}, Values: []float64{1}}
		_, err := service.Write(background(t), &tickmeshv1.WriteRequest{Batch: batch})
		got, ok := errors.AsType[*wire.Error](wire.FromStatus(err))
		if !ok || status.Code(err) != test.code || got.Kind != test.kind || (got.RetryAfterMs > 0) != test.retryAfter {
			t.Errorf("%v: %v %+v", test.err, err, got)
		}
	}
}

// openStream opens a write stream.
func openStream(t *testing.T, conn *grpc.ClientConn) grpc.BidiStreamingClient[tickmeshv1.WriteStreamRequest, tickmeshv1.WriteStreamResponse] {
	t.Helper()
	stream, err := tickmeshv1.NewWriteServiceClient(conn).WriteStream(background(t))
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// TestStream: handles last, also those of a batch that fails, until they are defined
// anew; each batch is answered; the stream ends when the client ends it.
func TestStream(t *testing.T) {
	storage := apitest.NewStorage(4)
	conn, _ := dial(t, apitest.Options(storage))
	stream := openStream(t, conn)
	point := func(handle uint32, value float64, definitions ...*tickmeshv1.SeriesHandle) *tickmeshv1.Batch {
		return &tickmeshv1.Batch{Definitions: definitions, Handles: []uint32{handle}, TimeDeltasMs: []int64{int64(value)}, Values: []float64{value}}
	}
	for i, step := range []struct {
		batch *tickmeshv1.Batch
		ok    bool
	}{
		{point(0, 1, named(0, "a")), true},
		{point(0, 2), true},
		{point(9, 3, named(1, "b")), false},
		{point(1, 4), true},
		{point(0, 5, named(0, "c")), true},
		{point(0, 6), true},
		{nil, true},
		{&tickmeshv1.Batch{}, true},
	} {
		if err := stream.Send(&tickmeshv1.WriteStreamRequest{Sequence: uint64(i + 100), Batch: step.batch, TimeoutMs: uint32(waitMax.Milliseconds())}); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil || answer.GetSequence() != uint64(i+100) || (answer.GetResult() != nil) != step.ok || (answer.GetError() == nil) != step.ok {
			t.Fatalf("step %d: %v, %v", i, answer, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if got, want := fmt.Sprint(newest(t, storage)), "map[a:2 b:4 c:6]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestShutdown answers what is being written, and ends the stream so that the client
// goes elsewhere.
func TestShutdown(t *testing.T) {
	storage := apitest.NewStorage(1)
	conn, server := dial(t, apitest.Options(storage))
	entered, release := make(chan struct{}), make(chan struct{})
	storage.SetHook(func(_ *series.Frame, apply func() (series.Outcome, error)) (series.Outcome, error) {
		close(entered)
		<-release
		return apply()
	})
	stream := openStream(t, conn)
	batch := &tickmeshv1.Batch{Definitions: []*tickmeshv1.SeriesHandle{named(0, "m")}, Handles: []uint32{0}, TimeDeltasMs: []int64{1}, Values: []float64{1}}
	if err := stream.Send(&tickmeshv1.WriteStreamRequest{Sequence: 1, Batch: batch}); err != nil {
		t.Fatal(err)
	}
	<-entered
	stopped := make(chan struct{})
	go func() {
		server.Stop()
		close(stopped)
	}()
	close(release)
	if answer, err := stream.Recv(); err != nil || answer.GetResult() == nil {
		t.Errorf("the batch: %v, %v", answer, err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream: %v", err)
	}
	<-stopped
}

// TestIDsOfAnotherEra: a batch whose ids mean nothing any more goes out with keys, those
// that its handles named when it was sent, and once.
func TestIDsOfAnotherEra(t *testing.T) {
	storage := apitest.NewStorage(4)
	conn, _ := dial(t, apitest.Options(storage))
	stream := openStream(t, conn)
	send := func(sequence uint64, b *tickmeshv1.Batch) {
		t.Helper()
		if err := stream.Send(&tickmeshv1.WriteStreamRequest{Sequence: sequence, Batch: b}); err != nil {
			t.Fatal(err)
		}
	}
	answered := func() {
		t.Helper()
		answer, err := stream.Recv()
		if err != nil || answer.GetError() != nil {
			t.Fatal(answer, err)
		}
	}
	id := func(n uint64) *tickmeshv1.BatchId { return &tickmeshv1.BatchId{Session: 1, Counter: n} }
	send(1, &tickmeshv1.Batch{
		BatchId: id(1), Definitions: []*tickmeshv1.SeriesHandle{named(0, "a"), named(1, "b"), named(2, "c")},
		Handles: []uint32{0, 1, 2}, TimeDeltasMs: []int64{1, 0, 0}, Values: []float64{1, 2, 3},
	})
	answered()
	redefined, calls := make(chan struct{}), atomic.Int64{}
	storage.SetHook(func(frame *series.Frame, apply func() (series.Outcome, error)) (series.Outcome, error) {
		switch {
		case frame.ID.Counter == 3:
			defer close(redefined)
		case calls.Add(1) == 1:
			<-redefined
			storage.Renumber()
		}
		return apply()
	})
	send(2, &tickmeshv1.Batch{
		BatchId: id(2), Definitions: []*tickmeshv1.SeriesHandle{named(3, ""), named(4, "d")},
		Handles: []uint32{0, 3, 1, 4, 0}, TimeDeltasMs: []int64{2, 0, 0, 0, 1}, Values: []float64{10, 66, 20, 40, 11.5},
	})
	send(3, &tickmeshv1.Batch{
		BatchId: id(3), Definitions: []*tickmeshv1.SeriesHandle{named(0, "x"), named(1, "c")},
		Handles: []uint32{0}, TimeDeltasMs: []int64{1}, Values: []float64{99},
	})
	answered()
	answered()
	want := map[string]float64{"a": 11.5, "b": 20, "c": 3, "d": 40, "x": 99}
	if got := newest(t, storage); !maps.Equal(got, want) || storage.Points() != 8 || calls.Load() != 2 {
		t.Errorf("%v, want %v; %d points, %d calls", got, want, storage.Points(), calls.Load())
	}
}

// TestBounds: calls, queries and memory beyond their bounds are refused as overload,
// and what was taken is given back.
func TestBounds(t *testing.T) {
	storage := apitest.NewStorage(1)
	o := apitest.Options(storage)
	o.Limits = api.Limits{CallsMax: 3, InFlightBytesMax: 16_000} // of calls one address gets two
	conn, _ := dial(t, o)
	service := tickmeshv1.NewWriteServiceClient(conn)
	overloaded := func(what string, err error) {
		t.Helper()
		if status.Code(err) != codes.ResourceExhausted || !errors.Is(wire.FromStatus(err), series.ErrOverloaded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	large := &tickmeshv1.Batch{Definitions: []*tickmeshv1.SeriesHandle{named(0, "m")}}
	for i := range 200 {
		large.Handles, large.TimeDeltasMs, large.Values = append(large.Handles, 0), append(large.TimeDeltasMs, int64(i)), append(large.Values, 1)
	}
	for range 3 {
		if _, err := service.Write(background(t), &tickmeshv1.WriteRequest{Batch: large}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 {
		large.Handles, large.TimeDeltasMs, large.Values = append(large.Handles, 0), append(large.TimeDeltasMs, int64(i)), append(large.Values, 1)
	}
	_, err := service.Write(background(t), &tickmeshv1.WriteRequest{Batch: large})
	overloaded("memory", err)
	streams := []grpc.BidiStreamingClient[tickmeshv1.WriteStreamRequest, tickmeshv1.WriteStreamResponse]{openStream(t, conn), openStream(t, conn)}
	for _, s := range streams {
		if err := s.Send(&tickmeshv1.WriteStreamRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = service.Write(background(t), &tickmeshv1.WriteRequest{})
	overloaded("calls", err)
	for _, s := range streams {
		_ = s.CloseSend()
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
	for range 1000 { // a call ends a little after its client knows
		if _, err = service.Write(background(t), &tickmeshv1.WriteRequest{}); err == nil {
			break
		}
	}
	if err != nil {
		t.Error("the calls have ended:", err)
	}
}

// TestWrongQueries holds wrong requests to INVALID_ARGUMENT.
func TestWrongQueries(t *testing.T) {
	conn, _ := dial(t, apitest.Options(apitest.NewStorage(1)))
	service := tickmeshv1.NewQueryServiceClient(conn)
	good := &tickmeshv1.Selector{Metric: []byte("m")}
	matching := func(kind tickmeshv1.MatchKind, name string, values ...string) *tickmeshv1.Selector {
		m := &tickmeshv1.Matcher{Name: []byte(name), Kind: kind}
		for _, v := range values {
			m.Values = append(m.Values, []byte(v))
		}
		return &tickmeshv1.Selector{Metric: []byte("m"), Matchers: []*tickmeshv1.Matcher{m}}
	}
	for i, request := range []*tickmeshv1.ScanRequest{
		{},
		{Selector: &tickmeshv1.Selector{Metric: []byte("m"), MetricAny: true}},
		{Selector: matching(0, "a", "b")},
		{Selector: matching(99, "a", "b")},
		{Selector: matching(tickmeshv1.MatchKind_MATCH_KIND_EQUAL, "a")},
		{Selector: matching(tickmeshv1.MatchKind_MATCH_KIND_EQUAL, "", "b")},
		{Selector: matching(tickmeshv1.MatchKind_MATCH_KIND_REGEXP, "a", "(")},
		{Selector: good, Windows: &tickmeshv1.Windows{}},
		{Selector: good, Windows: &tickmeshv1.Windows{WidthMs: 1}},
		{Selector: good, Limits: &tickmeshv1.ScanLimits{SeriesMax: -1}},
	} {
		stream, err := service.Scan(background(t), request)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("request %d: %v", i, err)
		}
	}
	names, err := service.ListNames(background(t), &tickmeshv1.ListNamesRequest{})
	if err == nil {
		_, err = names.Recv()
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("names of no kind: %v", err)
	}
}

// TestConsistency hands on the consistency of a reader, and marks what is missing.
func TestConsistency(t *testing.T) {
	storage := apitest.NewStorage(1)
	o := apitest.Options(storage)
	var asked []scan.Consistency
	o.WithConsistency = func(r scan.Consistency) (scan.Source, func() []uint16) {
		asked = append(asked, r)
		return storage, func() []uint16 { return []uint16{3, 5} }
	}
	conn, _ := dial(t, o)
	service := tickmeshv1.NewQueryServiceClient(conn)
	selector := &tickmeshv1.Selector{Metric: []byte("m")}
	for _, request := range []*tickmeshv1.ScanRequest{
		{Selector: selector},
		{Selector: selector, Freshness: &tickmeshv1.Freshness{StalenessMaxMs: 1500}, AllowPartial: true},
	} {
		stream, err := service.Scan(background(t), request)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if request.GetAllowPartial() && fmt.Sprint(answer.GetShardsMissing()) != "[3 5]" || !request.GetAllowPartial() && !errors.Is(err, io.EOF) {
			t.Errorf("%v: %v, %v", request, answer, err)
		}
		for err == nil {
			_, err = stream.Recv()
		}
	}
	if want := (scan.Consistency{StalenessMax: 1500 * time.Millisecond, Partial: true}); len(asked) != 1 || asked[0] != want {
		t.Errorf("%+v", asked)
	}
}

func TestServerInfo(t *testing.T) {
	conn, _ := dial(t, apitest.Options(apitest.NewStorage(1)))
	service := tickmeshv1.NewClusterServiceClient(conn)
	info, err := service.GetServerInfo(background(t), &tickmeshv1.GetServerInfoRequest{ApiLevel: 7})
	if err != nil || info.GetApiLevel() != api.Level || info.GetCluster() != "test" || info.GetHandlesMax() == 0 || info.GetMessageBytesMax() == 0 || info.GetBatchesInFlightMax() != 128 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := service.GetServerInfo(background(t), &tickmeshv1.GetServerInfoRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a client without a level: %v", err)
	}
}

func TestOptions(t *testing.T) {
	good := apitest.Options(apitest.NewStorage(1))
	for i, change := range []func(*api.Options){
		func(o *api.Options) { o.Writer = nil }, func(o *api.Options) { o.Source = nil }, func(o *api.Options) { o.Shards = 0 },
		func(o *api.Options) { o.Limits.KeyBytesMax = 1 << 16 }, func(o *api.Options) { o.Limits.CallsMax = -1 },
	} {
		o := good
		change(&o)
		if _, err := api.New(o); !errors.Is(err, api.ErrOptions) {
			t.Errorf("change %d: %v", i, err)
		}
	}
}

// ownerSource notes who has the processors of a scan.
type ownerSource struct {
	scan.Source
	owners chan string
}

func (s ownerSource) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	s.owners <- processor.Of(ctx).Owner()
	return s.Source.Scan(ctx, request, visit)
}

// TestOwners: queries of callers without a name are those of their addresses, as over HTTP, and not of one owner.
func TestOwners(t *testing.T) {
	o := apitest.Options(apitest.NewStorage(1))
	source := ownerSource{o.Source, make(chan string, 1)}
	o.Source, o.Processors, o.Admission = source, processor.New(1), admission.New(admission.Options{})
	_, s := dial(t, o)
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := grpc.NewClient("passthrough:///"+s.Address, append(transport.DialOptions(nil), grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}))...)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		stream, err := tickmeshv1.NewQueryServiceClient(conn).Scan(background(t), &tickmeshv1.ScanRequest{Selector: &tickmeshv1.Selector{Metric: []byte("m")}})
		if err == nil {
			_, err = stream.Recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if owner := <-source.owners; owner != from {
			t.Errorf("the owner of a query of %s is %q", from, owner)
		}
	}
}

// TestAdmission: queries are entered in admission control, and refused as overload when it is full.
func TestAdmission(t *testing.T) {
	o := apitest.Options(apitest.NewStorage(1))
	o.Admission = admission.New(admission.Options{Limits: admission.Limits{RunningMax: 1}, SlowerThan: time.Nanosecond})
	conn, _ := dial(t, o)
	service := tickmeshv1.NewQueryServiceClient(conn)
	ask := func() error {
		stream, err := service.Scan(background(t), &tickmeshv1.ScanRequest{Selector: &tickmeshv1.Selector{
			Metric: []byte("m"), Matchers: []*tickmeshv1.Matcher{{Name: []byte("k"), Kind: tickmeshv1.MatchKind_MATCH_KIND_EQUAL, Values: [][]byte{[]byte("v")}}},
		}})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	if err := ask(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	slow := o.Admission.Slow()
	if len(slow) != 1 || slow[0].Dialect != "grpc" || slow[0].Text != `Scan m{k EQUAL ["v"]}` {
		t.Fatalf("%+v", slow)
	}
	_, entry, err := o.Admission.Begin(t.Context(), admission.Query{})
	if err != nil {
		t.Fatal(err)
	}
	defer entry.End(nil)
	if err := ask(); status.Code(err) != codes.ResourceExhausted || !errors.Is(wire.FromStatus(err), series.ErrOverloaded) {
		t.Fatal(err)
	}
}
