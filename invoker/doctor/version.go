package doctor

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// version is the numbers of a version; a missing one counts as 0.
type version [3]int

// findVersion reads the first version in a text.
func findVersion(text string) (version, bool) {
	found := regexp.MustCompile(`\b(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?`).FindStringSubmatch(text)
	if found == nil {
		return version{}, false
	}
	var v version
	for i := range v {
		v[i], _ = strconv.Atoi(found[i+1]) // an absent part is 0
	}
	return v, true
}

func (v version) before(other version) bool { return slices.Compare(v[:], other[:]) < 0 }

func (v version) String() string {
	var parts []string
	for _, n := range v {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ".")
}

// hole is a known vulnerability of NVIDIA's container toolkit.
type hole struct {
	name  string
	fixed version
}

// holes are those of NVIDIA's security bulletins by which a container may get
// at its host. All concern what the toolkit does when a container is made from
// an image that somebody else built, which is what actions are.
func holes() []hole {
	return []hole{
		{"CVE-2024-0132", version{1, 16, 2}},
		{"CVE-2024-0133", version{1, 16, 2}},
		{"CVE-2024-0134", version{1, 17, 0}},
		{"CVE-2024-0135", version{1, 17, 1}},
		{"CVE-2024-0136", version{1, 17, 1}},
		{"CVE-2024-0137", version{1, 17, 1}},
		{"CVE-2025-23359", version{1, 17, 4}},
		{"CVE-2025-23266", version{1, 17, 8}},
		{"CVE-2025-23267", version{1, 17, 8}},
	}
}

// open lists the holes of a version, and the version that has none of them.
func (v version) open() (names []string, fixed version) {
	for _, h := range holes() {
		if v.before(h.fixed) {
			names = append(names, h.name)
			if fixed.before(h.fixed) {
				fixed = h.fixed
			}
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names, fixed
}
