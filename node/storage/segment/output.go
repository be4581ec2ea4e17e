package segment

import "github.com/tickmesh/tickmesh/node/storage/vfs"

// outputBytes is the size of a large sequential write.
const outputBytes = 256 << 10

// output writes a file from its start in large pieces. After an error, which it
// keeps, it writes nothing more.
type output struct {
	file    vfs.File
	scratch bool // it need not be durable
	buffer  []byte
	offset  int64 // of the next byte
	err     error
}

func (o *output) write(b []byte) {
	o.buffer = append(o.buffer, b...)
	o.offset += int64(len(b))
	o.flushIfLarge()
}

func (o *output) flushIfLarge() {
	if len(o.buffer) >= outputBytes {
		o.flush()
	}
}

func (o *output) flush() {
	if o.err == nil && len(o.buffer) > 0 {
		_, o.err = o.file.WriteAt(o.buffer, o.offset-int64(len(o.buffer)))
	}
	o.buffer = o.buffer[:0]
}

// close writes what is left and makes the file durable, unless it is for a moment.
func (o *output) close() error {
	o.flush()
	if o.err == nil && !o.scratch {
		o.err = o.file.Sync()
	}
	if err := o.file.Close(); o.err == nil {
		o.err = err
	}
	o.file = nil
	return o.err
}

// abandon discards the file.
func (o *output) abandon() {
	if o.file != nil {
		_ = o.file.Close() // the file is about to be removed
		o.file = nil
	}
	o.buffer = nil
}
