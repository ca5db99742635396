#include "service/store/checksums/vector_state.h"

namespace sparseagg {

void ClearUpperHalves() {}  // there are none

}  // namespace sparseagg
