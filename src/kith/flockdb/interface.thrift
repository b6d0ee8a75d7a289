// The service of FlockDB, and of the older service Edges, as their clients speak it.
// Lists of ids are packed as i64, lists of counts as i32, both little-endian.

exception FlockException {
  1: string description
}

enum EdgeState { Positive = 0, Removed = 1, Archived = 2, Negative = 3 }
enum SelectOperationType { SimpleQuery = 1, Intersection = 2, Union = 3, Difference = 4 }
enum ExecuteOperationType { Add = 1, Remove = 2, Archive = 3, Negate = 4 }
enum Priority { Low = 1, Medium = 2, High = 3 }

struct Results {
  1: binary ids
  2: i64 next_cursor
  3: i64 prev_cursor
}

struct Page {
  1: i32 count
  2: i64 cursor
}

struct Metadata {
  1: i64 source_id
  2: i32 state_id
  3: i32 count
  4: i32 updated_at
}

struct Edge {
  1: i64 source_id
  2: i64 destination_id
  3: i64 position
  4: i32 updated_at
  5: i32 count
  6: i32 state_id
}

struct QueryTerm {
  1: i64 source_id
  2: i32 graph_id
  3: bool is_forward
  4: optional binary destination_ids
  5: optional list<i32> state_ids
}

struct SelectOperation {
  1: SelectOperationType operation_type
  2: optional QueryTerm term
}

struct ExecuteOperation {
  1: ExecuteOperationType operation_type
  2: QueryTerm term
  3: optional i64 position
}

struct ExecuteOperations {
  1: list<ExecuteOperation> operations
  2: optional i32 execute_at
  3: Priority priority
}

struct SelectQuery {
  1: list<SelectOperation> operations
  2: Page page
}

struct EdgeQuery {
  1: QueryTerm term
  2: Page page
}

struct EdgeResults {
  1: list<Edge> edges
  2: i64 next_cursor
  3: i64 prev_cursor
}

service FlockDB {
  bool contains(1: i64 source_id, 2: i32 graph_id, 3: i64 destination_id) throws (1: FlockException ex)
  Edge get(1: i64 source_id, 2: i32 graph_id, 3: i64 destination_id) throws (1: FlockException ex)
  Metadata get_metadata(1: i64 source_id, 2: i32 graph_id) throws (1: FlockException ex)
  bool contains_metadata(1: i64 source_id, 2: i32 graph_id) throws (1: FlockException ex)
  list<Results> select2(1: list<SelectQuery> queries) throws (1: FlockException ex)
  binary count2(1: list<list<SelectOperation>> queries) throws (1: FlockException ex)
  list<EdgeResults> select_edges(1: list<EdgeQuery> queries) throws (1: FlockException ex)
  void execute(1: ExecuteOperations operations) throws (1: FlockException ex)
  i32 count(1: list<SelectOperation> operations) throws (1: FlockException ex)
  Results select(1: list<SelectOperation> operations, 2: Page page) throws (1: FlockException ex)
  binary counts_of_destinations_for(1: binary source_ids, 2: i32 graph_id) throws (1: FlockException ex)
  binary counts_of_sources_for(1: binary destination_ids, 2: i32 graph_id) throws (1: FlockException ex)
}
