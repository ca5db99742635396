// The head of an answer as it is sent.
#ifndef SPARSEAGG_SERVICE_HTTP_ANSWER_HEAD_H_
#define SPARSEAGG_SERVICE_HTTP_ANSWER_HEAD_H_

#include <string>
#include <utility>
#include <vector>

#include "service/http/web_protocol.h"

namespace sparseagg {

struct AnswerHead {
  bool close = false;            // the connection is closed after this answer
  bool says_keep_alive = false;  // for HTTP/1.0, whose connections are closed otherwise
  std::vector<std::pair<std::string, std::string>> cors;
};

std::string PrintHead(const WebAnswer& answer, const AnswerHead& head);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_ANSWER_HEAD_H_
