// The one place where Asio and Beast are compiled; everything else sees declarations only.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
