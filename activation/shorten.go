package activation

// shortenedLine ends logs that were cut because of the record they are in.
const shortenedLine = "Logs were truncated because the activation record is too large for the database."

// ShortenLogs returns the document of a record with at most keep bytes of its
// logs, and a last line about the cut. It returns false when there is nothing
// to cut.
func ShortenLogs(doc []byte, keep int) ([]byte, bool) {
	members, err := Members(doc)
	if err != nil {
		return nil, false
	}
	o := newObject(make([]byte, 0, min(len(doc), keep+64*1024)))
	cut := false
	for _, m := range members {
		if m.Key != "logs" {
			o.raw(m.Key, m.Value)
			continue
		}
		p := newParser(m.Value)
		kept, dropped := fitting(p.strings(), keep)
		cut = dropped && p.end() == nil
		o.strs(m.Key, append(kept, shortenedLine))
	}
	return o.end(), cut
}

// fitting returns the first lines that together have at most keep bytes. dropped does
// not count the line that an earlier shortening added.
func fitting(lines []string, keep int) (kept []string, dropped bool) {
	size := 0
	for i, line := range lines {
		if size += len(line); size > keep {
			return lines[:i:i], line != shortenedLine
		}
	}
	return lines, false
}
