package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tickmesh/tickmesh/api/loopback"
	"github.com/tickmesh/tickmesh/api/series"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
)

// vectors are what the clients of all languages do alike; proto/README.md describes the file.
type vectors struct {
	Retries []retryVector
	Delays  []struct {
		MinMs        int64 `json:"min_ms"`
		MaxMs        int64 `json:"max_ms"`
		Failures     int
		RetryAfterMs int64 `json:"retry_after_ms"`
		LeastMs      int64 `json:"least_ms"`
		MostMs       int64 `json:"most_ms"`
	}
	Window []struct {
		Oldest, Last uint64
		MayTake      bool `json:"may_take"`
	}
	Loopback map[string]bool
}

type retryVector struct {
	Name             string
	AttemptTimeoutMs int64 `json:"attempt_timeout_ms"`
	Writes           [][]vectorSample
	Answers          []vectorAnswer
	Received         []vectorBatch
	Outcomes         []vectorOutcome
}

type vectorSample struct {
	metric string
	timeMs int64
	value  float64
}

// UnmarshalJSON reads [metric, timeMs, value].
func (s *vectorSample) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&s.metric, &s.timeMs, &s.value})
}

type vectorError struct {
	Error        string
	RetryAfterMs uint32 `json:"retry_after_ms"`
}

func (e vectorError) message() *tickmeshv1.Error {
	kind := tickmeshv1.ErrorKind_value["ERROR_KIND_"+e.Error]
	return &tickmeshv1.Error{Kind: tickmeshv1.ErrorKind(kind), Message: e.Error, RetryAfterMs: e.RetryAfterMs}
}

type vectorAnswer struct {
	vectorError
	Code    codes.Code // of gRPC, without an Error
	Silent  bool
	Refused map[string]vectorError
}

type vectorBatch struct {
	Counter uint64
	Samples []vectorSample
}

type vectorOutcome struct {
	Error   string
	Refused map[string]vectorRefusal
}

type vectorRefusal struct {
	Points int
	Error  string
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	data, err := os.ReadFile("../../proto/vectors/client.json")
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil || len(v.Retries) == 0 || len(v.Delays) == 0 || len(v.Window) == 0 || len(v.Loopback) == 0 {
		t.Fatal("no vectors: ", err)
	}
	return v
}

// vectorServer answers as a vector says.
type vectorServer struct {
	tickmeshv1.UnimplementedClusterServiceServer
	tickmeshv1.UnimplementedWriteServiceServer
	answers []vectorAnswer

	mu struct {
		sync.Mutex
		received []vectorBatch
		sessions map[uint64]bool
	}
}

func startVectorServer(t *testing.T, answers []vectorAnswer) (s *vectorServer, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = &vectorServer{answers: answers}
	s.mu.sessions = map[uint64]bool{}
	g := grpc.NewServer()
	tickmeshv1.RegisterClusterServiceServer(g, s)
	tickmeshv1.RegisterWriteServiceServer(g, s)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return s, l.Addr().String()
}

func (s *vectorServer) GetServerInfo(context.Context, *tickmeshv1.GetServerInfoRequest) (*tickmeshv1.GetServerInfoResponse, error) {
	return &tickmeshv1.GetServerInfoResponse{ApiLevel: 1, ApiLevelMin: 1, HandlesMax: 1000, MessageBytesMax: 1 << 20}, nil
}

// take notes a batch, of which metrics has the names by handle, and returns the answer to it.
func (s *vectorServer) take(b *tickmeshv1.Batch, metrics map[uint32]string) vectorAnswer {
	got := vectorBatch{Counter: b.GetBatchId().GetCounter()}
	for _, d := range b.GetDefinitions() {
		metrics[d.GetHandle()] = string(d.GetSeries().GetMetric())
	}
	var timeMs int64
	for i, handle := range b.GetHandles() {
		timeMs += b.GetTimeDeltasMs()[i]
		got.Samples = append(got.Samples, vectorSample{metrics[handle], timeMs, b.GetValues()[i]})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.mu.received)
	s.mu.received = append(s.mu.received, got)
	s.mu.sessions[b.GetBatchId().GetSession()] = true
	if n >= len(s.answers) {
		return vectorAnswer{Code: codes.DataLoss}
	}
	return s.answers[n]
}

// result returns an answer as a call's, or a stream's: nil and nil mean an Error.
func (a vectorAnswer) result(ctx context.Context, metrics map[uint32]string) (*tickmeshv1.WriteResult, error) {
	switch {
	case a.Silent:
		<-ctx.Done()
		return nil, ctx.Err()
	case a.Code != codes.OK:
		return nil, status.Error(a.Code, "of gRPC")
	case a.Error != "":
		return nil, nil
	}
	result := &tickmeshv1.WriteResult{Copies: 1}
	for handle, metric := range metrics {
		if e, ok := a.Refused[metric]; ok {
			result.Refused = append(result.Refused, &tickmeshv1.RefusedSeries{Handle: handle, Error: e.message()})
		}
	}
	return result, nil
}

func (s *vectorServer) Write(ctx context.Context, r *tickmeshv1.WriteRequest) (*tickmeshv1.WriteResponse, error) {
	metrics := map[uint32]string{}
	a := s.take(r.GetBatch(), metrics)
	result, err := a.result(ctx, metrics)
	if err == nil && result == nil {
		st, detailsErr := status.New(codes.Unknown, a.Error).WithDetails(a.message())
		return nil, errors.Join(detailsErr, st.Err())
	}
	return &tickmeshv1.WriteResponse{Result: result}, err
}

func (s *vectorServer) WriteStream(stream grpc.BidiStreamingServer[tickmeshv1.WriteStreamRequest, tickmeshv1.WriteStreamResponse]) error {
	metrics := map[uint32]string{}
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		a := s.take(r.GetBatch(), metrics)
		result, err := a.result(stream.Context(), metrics)
		if err != nil {
			return err
		}
		answer := &tickmeshv1.WriteStreamResponse{Sequence: r.GetSequence(), Outcome: &tickmeshv1.WriteStreamResponse_Result{Result: result}}
		if result == nil {
			answer.Outcome = &tickmeshv1.WriteStreamResponse_Error{Error: a.message()}
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// outcomeOf returns what a write ended with, in a vector's words.
func outcomeOf(err error) vectorOutcome {
	if err == nil {
		return vectorOutcome{}
	}
	o := vectorOutcome{Refused: map[string]vectorRefusal{}}
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	for _, err := range errs {
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			o.Refused[refused.Series.Metric()] = vectorRefusal{refused.Points, kindOf(refused.Err)}
			continue
		}
		return vectorOutcome{Error: kindOf(err)}
	}
	return o
}

func kindOf(err error) string {
	for name, kind := range map[string]error{
		"INVALID": ErrInvalid, "READ_ONLY": ErrReadOnly, "SERIES_LIMIT": ErrSeriesLimit, "BATCH_OLD": ErrBatchOld,
		"UNAUTHENTICATED": ErrUnauthenticated, "DENIED": ErrDenied, "INTERNAL": ErrInternal, "UNAVAILABLE": ErrUnavailable,
	} {
		if errors.Is(err, kind) {
			return name
		}
	}
	return err.Error()
}

func TestVectorsOfRetries(t *testing.T) {
	faces := map[string]func(*testing.T, *Client) func([]Sample) error{
		"Write": func(t *testing.T, c *Client) func([]Sample) error {
			return func(samples []Sample) error { return c.Write(t.Context(), samples...) }
		},
		"Writer": func(t *testing.T, c *Client) func([]Sample) error {
			w, err := c.NewWriter(WriterOptions{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.Close(context.Background()) })
			return func(samples []Sample) error {
				for _, s := range samples {
					if err := w.Append(t.Context(), s.Series, s.TimeMs, s.Value); err != nil {
						return fmt.Errorf("append: %w", err)
					}
				}
				return w.Flush(t.Context())
			}
		},
	}
	for face, of := range faces {
		for _, v := range readVectors(t).Retries {
			t.Run(face+"/"+strings.ReplaceAll(v.Name, " ", "_"), func(t *testing.T) { playVector(t, v, of) })
		}
	}
}

func playVector(t *testing.T, v retryVector, of func(*testing.T, *Client) func([]Sample) error) {
	s, address := startVectorServer(t, v.Answers)
	attempt := time.Duration(v.AttemptTimeoutMs) * time.Millisecond
	if attempt == 0 {
		attempt = 10 * time.Minute
	}
	c, err := New(Options{
		Endpoints: []string{address}, AttemptTimeout: attempt, WriteTimeout: 10 * time.Minute,
		RetryDelayMin: time.Millisecond, RetryDelayMax: 5 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	write := of(t, c)
	made := map[string]*Series{}
	for i, rows := range v.Writes {
		var samples []Sample
		for _, row := range rows {
			if made[row.metric] == nil {
				made[row.metric] = MustSeries(row.metric)
			}
			samples = append(samples, Sample{Series: made[row.metric], TimeMs: row.timeMs, Value: row.value})
		}
		if got := outcomeOf(write(samples)); got.Error != v.Outcomes[i].Error || len(got.Refused) != len(v.Outcomes[i].Refused) ||
			(len(got.Refused) > 0 && !reflect.DeepEqual(got, v.Outcomes[i])) {
			t.Errorf("write %d ends with %+v, want %+v", i, got, v.Outcomes[i])
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !reflect.DeepEqual(s.mu.received, v.Received) {
		t.Errorf("the server receives %+v, want %+v", s.mu.received, v.Received)
	}
	if len(s.mu.sessions) != 1 || s.mu.sessions[0] {
		t.Errorf("the sessions are %v, want one", s.mu.sessions)
	}
}

func TestVectorsOfDelays(t *testing.T) {
	for _, v := range readVectors(t).Delays {
		c := &Client{options: Options{
			RetryDelayMin: time.Duration(v.MinMs) * time.Millisecond, RetryDelayMax: time.Duration(v.MaxMs) * time.Millisecond,
		}}
		d := c.newDelays()
		d.failures = v.Failures
		for range 100 {
			got := d.next(time.Duration(v.RetryAfterMs) * time.Millisecond)
			if got < time.Duration(v.LeastMs)*time.Millisecond || got > time.Duration(v.MostMs)*time.Millisecond {
				t.Errorf("%v after %+v", got, v)
			}
		}
	}
}

func TestVectorsOfWindow(t *testing.T) {
	for _, v := range readVectors(t).Window {
		w := newWindow()
		for counter := uint64(1); counter <= v.Last; counter++ {
			id, err := w.take(t.Context())
			if err != nil || id.Counter != counter {
				t.Fatal(id, err)
			}
			if counter != v.Oldest {
				w.give(id)
			}
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := w.take(ended); (err == nil) != v.MayTake {
			t.Errorf("after %d, with %d open: %v", v.Last, v.Oldest, err)
		}
		w.give(series.BatchID{Session: w.session, Counter: v.Oldest})
		if _, err := w.take(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestVectorsOfLoopback(t *testing.T) {
	for address, want := range readVectors(t).Loopback {
		if got := loopback.IsAddress(address); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}
