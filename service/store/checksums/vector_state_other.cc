#include "service/store/checksums/vector_state.h"

namespace sparseagg {

void ClearUpperHalves() {}  // other processors have no such halves

}  // namespace sparseagg
