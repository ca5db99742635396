# Installs the build into a folder, builds examples/cpp_client against it as a stranger would, and runs it against the
# installed server.
#   cmake -DBUILD_DIR= -DSOURCE_DIR= -DCONFIG= -DGENERATOR= -DSERVER= -DSANITIZE= -P install_test.cmake
set(work ${BUILD_DIR}/install_test)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "exit code ${code} of: ${ARGV}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --config ${CONFIG} --prefix ${work}/prefix)

set(flags "")
if(SANITIZE STREQUAL "address")
  set(flags -DCMAKE_CXX_FLAGS=-fsanitize=address,undefined)
elseif(SANITIZE)
  set(flags -DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE})
endif()
run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/examples/cpp_client -B ${work}/build -G ${GENERATOR}
    -DCMAKE_PREFIX_PATH=${work}/prefix -DCMAKE_BUILD_TYPE=${CONFIG} ${flags})
run(${CMAKE_COMMAND} --build ${work}/build)

# The server ends with the script that waits for its address and runs the example.
file(WRITE ${work}/run.sh "
set -e
'${work}/prefix/bin/sparseagg' serve --listen 127.0.0.1:0 --admin-listen none --port-file '${work}/port' >'${work}/serve.log' 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server' EXIT
for attempt in $(seq 300); do
  [ -s '${work}/port' ] && break
  kill -0 $server || { cat '${work}/serve.log'; exit 1; }
  sleep 0.1
done
'${work}/build/cpp_client' 127.0.0.1:$(cat '${work}/port')
")
run(bash ${work}/run.sh)
foreach(line "3 contributors of total weight 6" "row     42: 2.33333 2.33333 2.33333 2.33333")
  string(FIND "${output}" "${line}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "the example printed no line \"${line}\":\n${output}")
  endif()
endforeach()
