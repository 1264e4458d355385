#pragma once

namespace zeroproof::python {

/// From now on Error reaches Python as an exception of the type that fits, with the same sentence: ValueError for
/// arguments and names, OSError for files, TimeoutError for ranks that did not come, RuntimeError for the rest.
void translate_errors();

}  // namespace zeroproof::python
