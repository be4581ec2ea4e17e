package metadata

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Store keeps what a Catalog knows: a record for each database. See shardmap.Store.
type Store interface {
	Metadata(ctx context.Context, since int64) (changed []shardmap.MetadataRecord, revision int64, err error)
	SwapMetadata(ctx context.Context, record shardmap.MetadataRecord) (revision int64, err error)
}

const (
	// roundEvery is how long what one router heard may be news to the others, and be lost.
	roundEvery = 30 * time.Second
	// roundBytesMax bounds what one round writes, so that a store has time to forget old versions; a record more may be written.
	roundBytesMax = 1 << 20
	// roundRecordsMax bounds the records that one round writes: each is a transaction, and a Folder writes its whole file for it.
	roundRecordsMax = 32
	// lastRoundMax bounds the round when a process ends.
	lastRoundMax = 2 * time.Second
	// recordBytesMax bounds a record that is decompressed: texts, and what JSON writes around and for them.
	recordBytesMax = 16 << 20
)

// recordContent is the text of a record, before it is compressed with gzip.
type recordContent struct {
	Version int            `json:"version"`
	Metrics []recordMetric `json:"metrics"`
}

// recordVersion is the version of records. One of a later version is neither read nor replaced.
const recordVersion = 1

type recordMetric struct {
	Metric string `json:"metric"`
	Type   string `json:"type"`
	Unit   string `json:"unit,omitempty"`
	Help   string `json:"help,omitempty"`
	Day    int64  `json:"day"` // since 1970, when it was heard last
}

// errRecord marks a record that cannot be read.
var errRecord = errors.New("not a record of metadata")

// encodeRecord returns the text of a record.
func encodeRecord(r recordContent) ([]byte, error) {
	var text bytes.Buffer
	zip := gzip.NewWriter(&text)
	if err := errors.Join(json.NewEncoder(zip).Encode(r), zip.Close()); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// decodeRecord reads the text of a record. Errors: errRecord.
func decodeRecord(text []byte) (r recordContent, err error) {
	zip, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return r, fmt.Errorf("%w: %w", errRecord, err)
	}
	if err := json.NewDecoder(io.LimitReader(zip, recordBytesMax)).Decode(&r); err != nil {
		return r, fmt.Errorf("%w: %w", errRecord, err)
	}
	if r.Version != recordVersion || len(r.Metrics) > databaseMetricsMax {
		return r, fmt.Errorf("%w: version %d with %d metrics", errRecord, r.Version, len(r.Metrics))
	}
	for _, m := range r.Metrics {
		if m.Metric == "" || len(m.Metric) > textBytesMax || len(m.Unit) > textBytesMax || len(m.Type) > textBytesMax {
			return r, fmt.Errorf("%w: metric %.100q", errRecord, m.Metric)
		}
	}
	return r, nil
}

// Run keeps the catalog and a store the same until ctx ends, and saves once more then. now is the clock.
func (c *Catalog) Run(ctx context.Context, store Store, now func() time.Time, logger *slog.Logger) {
	f := follower{catalog: c, store: store, log: logger}
	tick := time.NewTicker(roundEvery)
	defer tick.Stop()
	for {
		f.round(ctx, now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRoundMax)
			defer cancel()
			f.round(last, now())
			return
		}
	}
}

// follower follows the records of a store, and writes them. It is for one goroutine.
type follower struct {
	catalog *Catalog
	store   Store
	log     *slog.Logger
	since   int64 // the revision that all records were read at
}

// round reads what others have written, and writes what they do not know.
func (f *follower) round(ctx context.Context, now time.Time) {
	changed, revision, err := f.store.Metadata(ctx, f.since)
	if err == nil && revision < f.since { // the store was set back
		f.forget()
		changed, revision, err = f.store.Metadata(ctx, 0)
	}
	if err != nil {
		f.failed(ctx, err)
		f.catalog.begin(now)
		return
	}
	f.since = revision
	f.catalog.begin(now)
	for _, record := range changed {
		content, err := decodeRecord(record.Text)
		if err != nil {
			f.log.Warn("what is stored of metrics cannot be read", "database", record.Database, "error", err)
			continue
		}
		f.catalog.load(record, content)
	}
	if err := f.save(ctx); err != nil {
		f.failed(ctx, err)
	}
}

// forget has all records read anew.
func (f *follower) forget() {
	f.since = 0
	f.catalog.forget()
}

// failed counts a round.
func (f *follower) failed(ctx context.Context, err error) {
	f.catalog.counts.roundsFailed.Add(1)
	if ctx.Err() == nil {
		f.log.Warn("what metrics mean cannot be kept for now; it is tried again", "error", err)
	}
}

// save writes records that have changed. It returns the last error but that others have changed a record, too.
func (f *follower) save(ctx context.Context) (last error) {
	written := 0
	for n, database := range f.catalog.unsaved() {
		if n == roundRecordsMax || written > roundBytesMax || ctx.Err() != nil {
			return last
		}
		revision, content := f.catalog.record(database)
		var text []byte // none takes the record away
		var err error
		if len(content.Metrics) > 0 {
			text, err = encodeRecord(content)
		}
		if err == nil {
			written += len(text)
			revision, err = f.store.SwapMetadata(ctx, shardmap.MetadataRecord{Database: database, Revision: revision, Text: text})
		}
		switch {
		case err == nil:
			f.catalog.saved(database, revision, content)
		case errors.Is(err, shardmap.ErrMetadataChanged):
			f.forget() // the next round reads what it is now
			return last
		case errors.Is(err, shardmap.ErrMetadata), errors.Is(err, shardmap.ErrDatabases):
			last = err // others may have room
		default:
			return err
		}
	}
	return last
}

// begin begins a round: the time goes on, and what nobody has said for long is dropped.
func (c *Catalog) begin(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
	today := dayOf(now)
	for database, d := range c.known {
		if len(d.metrics) == 0 && !d.changed {
			delete(c.known, database)
		}
		for metric, m := range d.metrics {
			switch {
			case m.day == 0: // it was heard before the first round
				m.day = today
				d.metrics[metric] = m
			case today-m.day > unheardDays:
				c.dropLocked(d, metric)
				d.changed = true
			}
		}
	}
}

// load takes a record in the place of all that is known of its database, but for what was heard since and is not in it.
func (c *Catalog) load(record shardmap.MetadataRecord, content recordContent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.known[record.Database]
	if d == nil {
		if len(c.known) >= databasesMax {
			return
		}
		if c.known == nil {
			c.known = map[string]*databaseMetrics{}
		}
		d = &databaseMetrics{metrics: map[string]heardMetric{}}
		c.known[record.Database] = d
	}
	d.revision = record.Revision
	before := d.metrics
	c.bytes -= d.bytes
	d.metrics, d.bytes, d.changed = make(map[string]heardMetric, len(content.Metrics)), 0, false
	for _, kept := range content.Metrics {
		m := heardMetric{Description: Description{Metric: kept.Metric, Type: kept.Type, Unit: kept.Unit, Help: kept.Help}, day: kept.Day}
		if own, known := before[m.Metric]; known {
			m.changedAt = own.changedAt
			if own.Description != m.Description {
				m.changedAt = c.now
			}
		}
		if c.makeRoomLocked(d, d.metrics[m.Metric], m.bytes()) {
			c.putLocked(d, m)
		}
	}
	for metric, own := range before {
		m, known := d.metrics[metric]
		if own.unsaved && (!known || own.Description != m.Description || own.day > m.day) && c.makeRoomLocked(d, m, own.bytes()) {
			c.putLocked(d, own)
			d.changed = true
		}
	}
}

// forget has the records of all databases written anew, unless they are read first.
func (c *Catalog) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.known {
		d.revision, d.changed = 0, true
		for metric, m := range d.metrics {
			m.unsaved = true
			d.metrics[metric] = m
		}
	}
}

// unsaved returns the databases whose records are to be written.
func (c *Catalog) unsaved() (databases []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for database, d := range c.known {
		if d.changed {
			databases = append(databases, database)
		}
	}
	return databases
}

// record returns the record of a database as it should be, and the revision of the one to replace.
func (c *Catalog) record(database string) (revision int64, content recordContent) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	content.Version = recordVersion
	d := c.known[database]
	for _, m := range d.metrics {
		content.Metrics = append(content.Metrics, recordMetric{Metric: m.Metric, Type: m.Type, Unit: m.Unit, Help: m.Help, Day: m.day})
	}
	return d.revision, content
}

// saved notes that a record was written.
func (c *Catalog) saved(database string, revision int64, content recordContent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.known[database]
	if d.revision = revision; len(content.Metrics) == 0 {
		d.revision = 0 // the record was taken away
	}
	for _, kept := range content.Metrics {
		if m := d.metrics[kept.Metric]; m.unsaved && m.day == kept.Day && m.Type == kept.Type && m.Unit == kept.Unit && m.Help == kept.Help {
			m.unsaved = false
			d.metrics[kept.Metric] = m
		}
	}
	d.changed = len(d.metrics) != len(content.Metrics)
	for _, m := range d.metrics {
		d.changed = d.changed || m.unsaved
	}
}
