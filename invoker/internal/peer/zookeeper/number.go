package zookeeper

import (
	"encoding/binary"
	"errors"
	"math"
	"math/big"
)

var errNumber = errors.New("not a number that an invoker can have")

// encodeID encodes an id as BigInt.toByteArray does: big-endian two's complement with
// the fewest bytes. 127 is 7f, 128 is 00 80.
func encodeID(id int) []byte {
	b := big.NewInt(int64(id)).Bytes()
	if len(b) == 0 || b[0] >= 0x80 { // a leading one would be a sign
		b = append([]byte{0}, b...)
	}
	return b
}

// decodeID decodes the result of encodeID. It also accepts leading sign bytes.
func decodeID(b []byte) (int, error) {
	if len(b) == 0 || len(b) > 8 || b[0] >= 0x80 {
		return 0, errNumber
	}
	n := uint64(0)
	for _, one := range b {
		n = n<<8 | uint64(one)
	}
	if n > math.MaxInt32 {
		return 0, errNumber
	}
	return int(n), nil
}

// encodeCounter writes the counter as Curator's SharedCount does: four bytes,
// big end first.
func encodeCounter(n int) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(int32(n)))
}
