package wal

import (
	"encoding/binary"
	"hash/crc32"
)

// A frame is one entry in a file:
//
//	length of the payload    4 bytes, little endian
//	checksum of the payload  4 bytes
//	checksum of these 8      4 bytes
//	payload
//
// Both checksums begin with the salt in the file's name. Therefore, when a damaged frame
// is skipped and the next whole frame is searched, user data inside a payload is never
// mistaken for a frame.
const headerBytes = 12

// maxPayload is the largest plausible length, far above the largest message of a broker.
const maxPayload = 64 << 20

var table = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends the frame of a payload that is given in two parts.
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

// decodeFrame decodes the frame at the start of data. The payload is a slice of data.
// size is the size of the whole frame.
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

// gap is a part of a file without a whole frame.
type gap struct{ from, to int }

// scan calls each for every whole frame in a file's content, and returns the gaps
// between the frames.
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
