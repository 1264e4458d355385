#pragma once

namespace zeroproof::python {

/// Translates Error to the matching Python exception, with the same sentence: ValueError for
/// arguments and names, OSError for files, TimeoutError for ranks that did not arrive, RuntimeError
/// for the rest.
void translate_errors();

}  // namespace zeroproof::python
