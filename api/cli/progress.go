package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// progress shows on a terminal how far long work is. Its methods do nothing on nil,
// which stands for no terminal.
type progress struct {
	out     io.Writer
	total   atomic.Int64 // of done; 0: not known
	done    atomic.Int64
	samples atomic.Int64
	start   time.Time

	stop    chan struct{}
	stopped sync.WaitGroup
}

const progressInterval = 200 * time.Millisecond

// startProgress shows progress if out is a terminal.
func startProgress(out io.Writer, total int64) *progress {
	file, ok := out.(*os.File)
	if !ok {
		return nil
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	p := &progress{out: out, start: time.Now(), stop: make(chan struct{})}
	p.total.Store(total)
	p.stopped.Go(p.show)
	return p
}

func (p *progress) show() {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			fmt.Fprint(p.out, "\r\x1b[K", p.line(time.Since(p.start)))
		case <-p.stop:
			fmt.Fprint(p.out, "\r\x1b[K")
			return
		}
	}
}

// line returns the bar, the samples and their rate.
func (p *progress) line(elapsed time.Duration) string {
	samples := p.samples.Load()
	text := fmt.Sprintf("%d samples", samples)
	if seconds := elapsed.Seconds(); seconds > 0 {
		text += fmt.Sprintf(", %.0f/s", float64(samples)/seconds)
	}
	total := p.total.Load()
	if total <= 0 {
		return text
	}
	const width = 30
	part := min(1, max(0, float64(p.done.Load())/float64(total)))
	full := int(part * width)
	return fmt.Sprintf("[%s%s] %3.0f%%  %s", strings.Repeat("=", full), strings.Repeat(" ", width-full), 100*part, text)
}

// setTotal sets how much there is, once that is known.
func (p *progress) setTotal(n int64) {
	if p != nil {
		p.total.Store(n)
	}
}

func (p *progress) addDone(n int64) {
	if p != nil {
		p.done.Add(n)
	}
}

func (p *progress) addSamples(n int64) {
	if p != nil {
		p.samples.Add(n)
	}
}

// end takes the line away.
func (p *progress) end() {
	if p != nil {
		close(p.stop)
		p.stopped.Wait()
	}
}

// progressReader counts what is read as done.
type progressReader struct {
	io.Reader
	p *progress
}

func (r *progressReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.p.addDone(int64(n))
	return n, err
}
