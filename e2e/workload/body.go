package workload

import (
	"slices"
	"strconv"
)

// Form is the text format of points.
type Form uint8

// The forms.
const (
	Line Form = iota // InfluxDB line protocol: ten fields on a line
	Put              // OpenTSDB put lines: one line for each point
)

// String names the form as reports do.
func (f Form) String() string {
	if f == Put {
		return "put"
	}
	return "line"
}

// timeDigits is the width of a timestamp in seconds, so that it can be replaced
// in place: valid from 2001 to 2286.
const timeDigits = 10

// Body is the text of some rows whose timestamps can be changed in place, so that
// sending it again costs no formatting.
type Body struct {
	Text   []byte
	Points int
	stamps []stamp
}

type stamp struct {
	offset int // of the timestamp in Text
	row    int // seconds to add to the first row's time
}

// AppendRow adds one row of a device: a line of ten fields or ten put lines. The
// row's time is set by SetTime, row seconds after the given one.
func (b *Body) AppendRow(form Form, device int, row int, values *[SensorCount]Number) {
	if form == Put {
		for sensor := range values {
			b.appendPut(device, sensor, row, values[sensor])
		}
		return
	}
	text := append(b.Text, Metric+",device=d_"...)
	text = strconv.AppendInt(text, int64(device), 10)
	separator := byte(' ')
	for sensor := range values {
		text = append(text, separator, 's', '_', byte('0'+sensor), '=')
		text = values[sensor].Append(text)
		separator = ','
	}
	b.stamps = append(b.stamps, stamp{offset: len(text) + 1, row: row})
	b.Text = append(text, " 0000000000\n"...)
	b.Points += SensorCount
}

func (b *Body) appendPut(device, sensor, row int, value Number) {
	text := append(b.Text, "put "+Metric+" "...)
	b.stamps = append(b.stamps, stamp{offset: len(text), row: row})
	text = append(text, "0000000000 "...)
	text = append(value.Append(text), " device=d_"...)
	text = strconv.AppendInt(text, int64(device), 10)
	b.Text = append(text, " sensor=s_"...)
	b.Text = append(b.Text, byte('0'+sensor), '\n')
	b.Points++
}

// SetTime writes the rows' timestamps: firstSeconds for row 0.
func (b *Body) SetTime(firstSeconds int64) {
	for _, stamp := range b.stamps {
		seconds := firstSeconds + int64(stamp.row)
		digits := b.Text[stamp.offset : stamp.offset+timeDigits]
		for i := timeDigits - 1; i >= 0; i-- {
			digits[i] = byte('0' + seconds%10)
			seconds /= 10
		}
	}
}

// Reset empties the body and keeps its memory.
func (b *Body) Reset() { b.Text, b.stamps, b.Points = b.Text[:0], b.stamps[:0], 0 }

// Prepend puts a header, such as that of an HTTP request, before the text.
func (b *Body) Prepend(header []byte) {
	b.Text = slices.Insert(b.Text, 0, header...)
	for i := range b.stamps {
		b.stamps[i].offset += len(header)
	}
}
