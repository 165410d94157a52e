// What is heard after the first snapshot is what has changed. Go's package
// console writes it; delta.go there says how.

const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v);

// merge brings a snapshot up to date.
export function merge(into, change) {
  for (const [name, v] of Object.entries(change)) {
    if (v === null) delete into[name];
    else if (isObject(v) && "$set" in v) into[name] = v.$set;
    else if (isObject(v) && "$rows" in v) into[name] = rows(into[name], v.$rows);
    else if (isObject(v)) merge(into[name], v);
    else into[name] = v;
  }
}

function rows(list, { gone, new: more, set }) {
  if (gone) {
    const without = new Set(gone);
    list = list.filter((_, i) => !without.has(i));
  }
  if (more) list = list.concat(more);
  for (const [field, [places, values]] of Object.entries(set || {})) {
    values.forEach((v, i) => {
      const row = list[places ? places[i] : i];
      if (v === null) delete row[field];
      else row[field] = v;
    });
  }
  return list;
}
