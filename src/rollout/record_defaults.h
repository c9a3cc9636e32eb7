// What a record gets in a column that it leaves out: the same for every form of append body. Thread
// safe.
#pragma once

#include "base/error.h"
#include "env/clock.h"
#include "rollout/record_columns.h"
#include "rollout/record_schema.h"

namespace sarissa::rollout {

// Appends the default of `column` to the row that is being filled; its id and rollout_id must be
// there already. kInvalid for a column without a default (id, rollout_id), and for one role too
// many. `now` is the created_at.
Status AppendDefault(RecordColumns& columns, Column column, env::WallTime now);

}  // namespace sarissa::rollout
