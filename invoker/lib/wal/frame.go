package wal

import (
	"encoding/binary"
	"hash/crc32"
)

// A frame is one entry in a file:
//
//	length of the payload   4 bytes, little endian
//	check sum of the payload 4 bytes
//	check sum of these 8    4 bytes
//	payload
//
// Both sums begin with the salt of the file's name. So a part of a payload that
// a user chose is not taken for a frame when the frame before is damaged and the
// next whole one is searched for.
const headerBytes = 12

// maxPayload bounds what is believed of a length. It is far above the largest
// message that a broker takes.
const maxPayload = 64 << 20

var table = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends the frame of a payload that comes in two parts.
func appendFrame(dst []byte, salt uint32, head, body []byte) []byte {
	sum := crc32.Update(salt, table, head)
	if len(body) > 0 {
		sum = crc32.Update(sum, table, body)
	}
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(head)+len(body)))
	dst = binary.LittleEndian.AppendUint32(dst, sum)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Update(salt, table, dst[at:at+8]))
	return append(append(dst, head...), body...)
}

// decodeFrame reads the frame at the start of data. The payload is a part of
// data; size is that of the whole frame.
func decodeFrame(data []byte, salt uint32) (payload []byte, size int, ok bool) {
	if len(data) < headerBytes || crc32.Update(salt, table, data[:8]) != binary.LittleEndian.Uint32(data[8:]) {
		return nil, 0, false
	}
	n := binary.LittleEndian.Uint32(data)
	if n > maxPayload || int(n) > len(data)-headerBytes {
		return nil, 0, false
	}
	payload = data[headerBytes : headerBytes+int(n)]
	if crc32.Update(salt, table, payload) != binary.LittleEndian.Uint32(data[4:]) {
		return nil, 0, false
	}
	return payload, headerBytes + int(n), true
}

// gap is a part of a file in which no frame is whole.
type gap struct{ from, to int }

// scan calls each with every whole frame of a file's content, and lists what
// lies between them.
func scan(data []byte, salt uint32, each func(at int, payload []byte)) []gap {
	var gaps []gap
	for at := 0; at < len(data); {
		payload, size, ok := decodeFrame(data[at:], salt)
		if ok {
			each(at, payload)
			at += size
			continue
		}
		from := at
		for at++; at < len(data); at++ {
			if _, _, ok := decodeFrame(data[at:], salt); ok {
				break
			}
		}
		gaps = append(gaps, gap{from, at})
	}
	return gaps
}
