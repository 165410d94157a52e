package couchdb

import (
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation/spans"
)

// The texts of OpenWhisk's CouchDbRestStore for its requests, and their tokens
// (LoggingMarkers).
const (
	ofStore   = "CouchDbRestStore"
	ofBatcher = "sid_dbBatcher"
	ofInvoker = "sid_invoker"
)

func finding(db, id string) spans.Span {
	return spans.Span{Token: "database_getDocument", Class: ofStore, System: ofInvoker,
		Text: fmt.Sprintf("[GET] '%s' finding document: 'id: %s, rev: null'", db, id)}
}

func attaching(db, id, name string) spans.Span {
	return spans.Span{Token: "database_getDocumentAttachment", Class: ofStore, System: ofInvoker,
		Text: fmt.Sprintf("[ATT_GET] '%s' finding attachment '%s' of document 'id: %s, rev: null'", db, name, id)}
}

func searching(db, table string) spans.Span {
	return spans.Span{Token: "database_queryView", Class: ofStore, System: ofInvoker,
		Text: fmt.Sprintf("[QUERY] '%s' searching '%s", db, table)}
}

func saving(db string, n int) spans.Span {
	return spans.Span{Token: "database_saveDocumentBulk", Class: ofStore, System: ofBatcher, Documents: n,
		Text: fmt.Sprintf("'%s' saving %d documents", db, n)}
}
