package activation

import (
	"math"
	"strconv"
	"strings"
)

// decimal is a number as java.math.BigDecimal keeps it: an unscaled integer
// and a scale, value = digits * 10^-scale. OpenWhisk reads every JSON number
// into one and prints it again, which is why 1e3 leaves it as 1E+3.
type decimal struct {
	negative bool
	digits   string // without leading zeros, "0" for zero
	scale    int
}

// parseDecimal reads a JSON number. It refuses scales that do not fit
// BigDecimal's 32 bits: the original fails to parse those.
func parseDecimal(text string) (decimal, bool) {
	var d decimal
	mantissa, exponent := text, int64(0)
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		n, err := strconv.ParseInt(text[i+1:], 10, 64)
		if err != nil {
			return d, false
		}
		mantissa, exponent = text[:i], n
	}
	mantissa, d.negative = strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	scale := int64(len(fraction)) - exponent
	if scale < math.MinInt32 || scale > math.MaxInt32 {
		return d, false
	}
	d.scale = int(scale)
	d.digits = strings.TrimLeft(whole+fraction, "0")
	if d.digits == "" {
		d.digits, d.negative = "0", false
	}
	return d, true
}

// append prints the decimal by the rules of BigDecimal.toString: plain while
// scale >= 0 and the exponent stays above -7, else with one digit before the
// point and a signed exponent.
func (d decimal) append(dst []byte) []byte {
	if d.negative {
		dst = append(dst, '-')
	}
	adjusted := len(d.digits) - 1 - d.scale
	if d.scale >= 0 && adjusted >= -6 {
		return d.appendPlain(dst)
	}
	dst = append(dst, d.digits[0])
	if len(d.digits) > 1 {
		dst = append(dst, '.')
		dst = append(dst, d.digits[1:]...)
	}
	if adjusted == 0 {
		return dst
	}
	dst = append(dst, 'E')
	if adjusted > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, int64(adjusted), 10)
}

func (d decimal) appendPlain(dst []byte) []byte {
	point := len(d.digits) - d.scale
	switch {
	case d.scale == 0:
		return append(dst, d.digits...)
	case point > 0:
		dst = append(dst, d.digits[:point]...)
		dst = append(dst, '.')
		return append(dst, d.digits[point:]...)
	}
	dst = append(dst, '0', '.')
	for range -point {
		dst = append(dst, '0')
	}
	return append(dst, d.digits...)
}
