package checkpoint

// Layout is where everything stands in a safetensors file that is still to be
// written: who knows it can write the data in any order.
type Layout struct {
	Header  []byte   // what the file begins with, the length of the header's text included
	Tensors []Tensor // in the order of the specs, which is that of the data; Offset counts from the start of the file
	Size    int64    // bytes of the whole file
}

// LayOut lays a file out as NewWriter does; path is for messages. Errors are
// *FileError.
func LayOut(path string, specs []Spec, metadata map[string]string) (Layout, error) {
	head, tensors, err := encodeLayout(path, specs, metadata)
	if err != nil {
		return Layout{}, err
	}
	l := Layout{Header: head, Tensors: tensors, Size: int64(len(head))}
	for i := range tensors {
		tensors[i].Offset += int64(len(head))
		l.Size += tensors[i].Size
	}
	return l, nil
}
