package workload

import "strconv"

// SensorCount is the number of series of a device.
const SensorCount = 10

// Metric is the metric, or measurement, of all data.
const Metric = "m"

// Device makes the rows of one device: one value of each sensor for each second.
type Device struct {
	Number  int
	sensors [SensorCount]generator
	row     [SensorCount]Number
}

// NewDevice starts a device at its first row. With noise, all sensors have shape
// Noise; else the four realistic shapes in turn.
func NewDevice(seed uint64, number int, noise bool) *Device {
	device := &Device{Number: number}
	for sensor := range device.sensors {
		shape := realistic[sensor%len(realistic)]
		if noise {
			shape = Noise
		}
		device.sensors[sensor] = newGenerator(seed, int64(number)*SensorCount+int64(sensor), shape)
	}
	return device
}

// Next returns the next row. The array is overwritten by the next call.
func (d *Device) Next() *[SensorCount]Number {
	for sensor := range d.sensors {
		d.row[sensor] = d.sensors[sensor].value()
	}
	return &d.row
}

// DeviceName is the value of the tag device.
func DeviceName(number int) string { return "d_" + strconv.Itoa(number) }

// SensorName is the field of line protocol, or the value of the tag sensor of put
// lines.
func SensorName(sensor int) string { return "s_" + strconv.Itoa(sensor) }
