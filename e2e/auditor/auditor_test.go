package auditor

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// fakeConfig is quick: the fake has no faults to wait for.
func fakeConfig() Config {
	config := DefaultConfig()
	config.WriteEvery, config.ReadEvery = time.Millisecond, time.Millisecond
	config.Writers, config.Series = 2, 4
	return config
}

// auditFake audits for some rounds, or until something is found.
func auditFake(t *testing.T, d defect, rounds int) (Report, error) {
	t.Helper()
	audit, err := Start(t.Context(), fakeConfig(), newFake(t, d))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for range rounds {
		if err := audit.Progress(ctx); err != nil {
			break
		}
		if err := audit.Check(ctx); err != nil {
			break
		}
	}
	return audit.Stop()
}

func TestHonestClusterPasses(t *testing.T) {
	report, err := auditFake(t, none, 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	if report.Samples == 0 || report.Deletes == 0 || report.Repeats == 0 || report.Queries == 0 || report.Checks != 2*20 ||
		report.Refusals == 0 || report.Unanswered == 0 || report.Compared == 0 {
		t.Fatalf("the audit did not do its work: %s", report)
	}
}

// Each defect has to be found.
func TestEveryDefectIsFound(t *testing.T) {
	for _, d := range []defect{
		dropAck, dropPart, dropDelete, dropOverwrite, flipBit, staleRead, blindRouter, zombie, undelete, invent, inventSeries, moveTime, twice, exchange, cutAnswer, forgetKey,
	} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			report, err := auditFake(t, d, 400)
			if !errors.Is(err, ErrBroken) {
				t.Fatalf("not found: %v (%s)", err, report)
			}
			t.Log(err)
		})
	}
	t.Run(string(refuse), func(t *testing.T) {
		if report, err := auditFake(t, refuse, 400); !errors.Is(err, ErrRefused) {
			t.Fatalf("not found: %v (%s)", err, report)
		}
	})
}

// A cluster may answer what may be tried again with any code that says so; one server that takes no
// write may say that it cannot now, and nothing else.
func TestCodes(t *testing.T) {
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	defer server.Close()
	for _, test := range []struct {
		one    bool
		method string
		code   int
		want   error
	}{
		{false, http.MethodPost, 500, errUnavailable},
		{false, http.MethodPost, 429, errUnavailable},
		{false, http.MethodPost, 400, ErrRefused},
		{true, http.MethodPost, 503, errUnavailable},
		{true, http.MethodPost, 500, ErrRefused},
		{true, http.MethodPost, 429, ErrRefused},
		{true, http.MethodGet, 500, errUnavailable}, // a check fails when it stays so
	} {
		code = test.code
		config := fakeConfig()
		config.ServerEnds = test.one
		a := &Audit{config: config, client: server.Client()}
		_, _, err := a.do(t.Context(), requestOf{method: test.method, address: server.Listener.Addr().String(), path: writePath})
		if !errors.Is(err, test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// nobody is a target without a router.
type nobody struct{}

func (nobody) Routers() []string { return nil }

func TestStallIsTold(t *testing.T) {
	audit, err := Start(t.Context(), fakeConfig(), nobody{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := audit.Progress(ctx); !errors.Is(err, ErrStalled) {
		t.Fatal(err)
	}
	if err := audit.Check(ctx); !errors.Is(err, errNoRouter) {
		t.Fatal(err)
	}
	if _, err := audit.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{}, nobody{}); err == nil {
		t.Fatal("an empty configuration is taken")
	}
}

func TestCompareDigests(t *testing.T) {
	same := []replicaDigest{{0, "n1", 7, []byte("a")}, {0, "n2", 7, []byte("a")}, {1, "n1", 3, []byte("b")}}
	if compared, waiting, err := compareDigests(same); compared != 1 || waiting != "" || err != nil {
		t.Fatal(compared, waiting, err)
	}
	behind := append(slices.Clone(same), replicaDigest{1, "n2", 2, []byte("c")})
	if _, waiting, err := compareDigests(behind); waiting == "" || err != nil {
		t.Fatal(waiting, err)
	}
	different := append(slices.Clone(same), replicaDigest{1, "n2", 3, []byte("c")})
	if _, _, err := compareDigests(different); !errors.Is(err, ErrBroken) {
		t.Fatal(err)
	}
}
