package admission

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
)

// somebody is signed in until its credentials are withdrawn.
type somebody struct{ out atomic.Bool }

func (*somebody) Name() string                    { return "ann" }
func (s *somebody) May(string, access.Right) bool { return !s.out.Load() }

// TestQueriesEndWithTheCredentials: a query that runs ends soon after the credentials that it came with, and not before; one of a
// server without authentication goes on.
func TestQueriesEndWithTheCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{})
		who := &somebody{}
		running, e, err := l.Begin(access.With(t.Context(), access.Confine(who, "a")), Query{Database: "a"})
		if err != nil {
			t.Fatal(err)
		}
		other, o, err := l.Begin(access.With(t.Context(), access.Anyone()), Query{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if running.Err() != nil {
			t.Fatal("ended early:", context.Cause(running))
		}
		who.out.Store(true)
		time.Sleep(2 * signedInEvery)
		if cause := context.Cause(running); !errors.Is(cause, ErrSignedOut) || !errors.Is(cause, ErrCanceled) {
			t.Error(cause)
		}
		if other.Err() != nil {
			t.Error("another's query has ended")
		}
		e.End(running.Err())
		o.End(nil)
	})
}
